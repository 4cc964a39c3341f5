#pragma once

#include <cstdint>

#include "sextant/cp/cp_comms.h"
#include "sextant/cp/cp_plan.h"

namespace sx {

struct CpSizes {
  std::int64_t rows = 1;  ///< B
  std::int64_t query_heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t element_bytes = 2;   ///< of q, k, v, out
  std::int64_t key_grad_bytes = 4;  ///< of gradients of keys while they are summed: 4, 8 in fp64
};

/// Bytes that one coordinate sends for one attention.
struct CpVolume {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  friend bool operator==(const CpVolume&, const CpVolume&) = default;
};

/// Exactly what a communicator counts. For c equal parts, no window, KV = bytes of one part's keys
/// and values, dKV of their gradients, Q of its queries:
///
///   ring        (c-1) KV                  (c-1) KV + c dKV
///   allgather   (c-1) KV                  (c-1) KV + (c-1) dKV
///   ulysses     (c-1)/c (2 Q + KV)        the same          (key heads that several ranks need
///                                                           are sent to each)
///   hybrid      ulysses over `inner`, and a ring of c/inner with 1/inner of the heads
CpVolume cp_volume(CpKind kind, const CpPlan& plan, std::int64_t coord, const CpSizes& sizes,
                   std::int64_t inner = 1);

}  // namespace sx
