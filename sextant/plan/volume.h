#pragma once

#include <cstdint>

#include "sextant/plan/dp_plan.h"

namespace sx {

/// Elements (or bytes) that one rank sends in one optimizer step, by the communicator they go over.
/// A gather or a reduce_scatter of N over W ranks sends N (W - 1) / W of each rank, an all_reduce
/// twice that.
struct DpVolume {
  double gather = 0;     ///< parameters, shard axis
  double reduce = 0;     ///< gradients, shard axis (or all data ranks in flat order)
  double replicate = 0;  ///< gradients and parameters, replicate axis
  double total() const { return gather + reduce + replicate; }
  friend bool operator==(const DpVolume&, const DpVolume&) = default;
};

/// The closed forms over P = `padded` elements, m microbatches, R replicas of W shards:
///
///   replicated parameters   summed locally     2P(W-1)/W        (ddp, zero1)
///   (ddp zero1 zero2)       reduced each time  P m (W-1)/W + P(W-1)/W
///   sharded parameters      after use          3 P m (W-1)/W    (2 P m + P, summed locally)
///   (fsdp1 fsdp2)           after backward     2 P m (W-1)/W    (P m + P)
///                           after the step     P (1+m) (W-1)/W  (2 P)
///   R > 1, nested           + 2 (P/W) (R-1)/R once per step
///   R > 1, flat order       the reduce term is P (R W - 1)/W
///
/// `regathered`: elements that are gathered twice per microbatch under Release::kAfterUse, P minus
/// the unit that backward begins with (-1: all of P).
DpVolume dp_volume_elements(const DpChoice& choice, std::int64_t padded,
                            std::int64_t regathered = -1);

/// Bytes by the same forms over a plan's buffers, with padding, the unit that is not gathered
/// twice, and each part in its own element size.
DpVolume dp_volume_bytes(const DpPlan& plan);

}  // namespace sx
