#pragma once

#include <array>
#include <string>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/mesh/axis.h"
#include "sextant/mesh/parallel_dims.h"

namespace sx {

/// Which axes run fastest over the ranks, for the dense and the expert view. Slowest first: the
/// last axis joins neighbouring ranks.
struct RankOrder {
  std::array<Axis, 5> dense = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
  std::array<Axis, 5> expert = {Axis::kPp, Axis::kDpReplicate, Axis::kEdp, Axis::kEp, Axis::kEtp};

  /// "pp,dp_replicate,dp_shard,cp,tp": the dense axes as `parse_rank_order` reads them, followed by
  /// the expert ones where their order does not follow from it.
  std::string to_string() const;
  friend bool operator==(const RankOrder&, const RankOrder&) = default;
};

/// Reads `parallelism.rank_order`:
///   "default"                       the order of RankOrder{};
///   "tp-cp-ep-dp-pp"                Megatron-LM, leftmost FASTEST. Dense ranks take tp, cp, dp, pp
///                                   from it, expert ranks etp (for tp), ep, edp (for dp), pp; dp
///                                   is dp_replicate (slower) and dp_shard. (RankGenerator in
///                                   megatron/core/parallel_state.py)
///   "pp,dp_replicate,dp_shard,cp,tp" torchtitan and arrays of ranks, last fastest; "[...]" around
///                                   it and "dp" for both data axes are fine. ep, etp and edp may
///                                   be named too; where they are not, the expert view puts edp, ep
///                                   and etp at the places of dp_shard, cp and tp.
/// An axis of degree 1 may be left out.
/// Errors: kInvalid for an unknown, doubled or missing axis, and when the two views disagree about
///         which ranks form a pipeline (Megatron's rule: the string ends in pp, or pp = 1, or
///         edp = dp).
Result<RankOrder> parse_rank_order(std::string_view text, const ParallelDims& dims);

/// Whether both views join the same ranks into pipelines.
bool same_pipelines(const RankOrder& order, const ParallelDims& dims);

}  // namespace sx
