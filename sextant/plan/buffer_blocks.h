#pragma once

#include <cstdint>

#include "sextant/plan/dp_plan.h"

namespace sx {

/// Bytes of one buffer's blocks, each a multiple of 128; 0 where there is none.
struct BufferBlocks {
  // Persistent.
  std::int64_t params = 0, master = 0, local_grads = 0, grad_shard = 0;
  std::int64_t moments = 0;  ///< beside the arena, as exact as the optimizer asks for them
  // While in use.
  std::int64_t gathered = 0;   ///< as it comes over the wire
  std::int64_t full = 0;       ///< copied out; 0: the wire's own memory
  std::int64_t kept = 0;       ///< slice that neighbours keep between forward and backward
  std::int64_t whole = 0;      ///< as it comes from the neighbours
  std::int64_t grads = 0;      ///< whole gradients of a microbatch; 0: they are persistent
  std::int64_t grad_wire = 0;  ///< copy in wire type and order; 0: the gradients themselves
  std::int64_t sent = 0, received = 0;  ///< of an ordered fold
  std::int64_t fold = 0;                ///< its fp32 sum, beside the arena
  std::int64_t published = 0;  ///< updated replicas on their way, where they are copied out
  std::int64_t replicate = 0;  ///< shard in wire type, on its way over replicas
  /// Copies of gradients that the optimizer makes of parts whose length is not whole.
  std::int64_t decayed_copies = 0, plain_copies = 0;
};

BufferBlocks blocks_of(const DpBuffer& buffer);

}  // namespace sx
