#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/mesh/axis.h"
#include "sextant/mesh/layout.h"
#include "sextant/mesh/parallel_dims.h"

namespace sx {

/// Which axes run fastest over the ranks, for the dense and the expert view. Slowest first: the
/// last axis joins neighbouring ranks.
struct RankOrder {
  std::array<Axis, 5> dense = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
  std::array<Axis, 5> expert = {Axis::kPp, Axis::kDpReplicate, Axis::kEdp, Axis::kEp, Axis::kEtp};
  /// true: edp, ep and etp are cut, in the order of `expert`, out of the ranks that dp_shard, cp
  /// and tp join; pp and dp_replicate are then the same in both views. false: the expert view is
  /// laid out by `expert` on its own, as Megatron does.
  bool nested = true;

  /// "pp,dp_replicate,dp_shard,cp,tp"; with " / pp,dp_replicate,edp,ep,etp" behind it when the
  /// expert view does not follow from that.
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
///                                   it and "dp" for both data axes are fine. Without ep, etp and
///                                   edp in the list, they are cut out of the ranks of dp_shard, cp
///                                   and tp, at the places of cp, tp and dp_shard; with them, the
///                                   list orders both views.
/// An axis of degree 1 may be left out.
/// Errors: kInvalid for an unknown, doubled or missing axis, and with ep * etp > 1 when the two
/// views
///         disagree about which ranks form a pipeline (Megatron's rule: the string ends in pp, or
///         pp = 1, or edp = dp).
Result<RankOrder> parse_rank_order(std::string_view text, const ParallelDims& dims);

/// Offsets of ranks along each axis, by `static_cast<int>(axis)`.
struct AxisLayouts {
  std::array<Layout, kNumAxes> axes;
  Layout expert_replicate;  ///< dp_replicate as the expert view has it
};
/// Empty when the two views disagree about pipelines, or when a degree of the expert view cuts
/// inside an axis of the dense one. With ep = etp = 1 the expert view is always nested: nobody
/// needs it to be otherwise. Errors: ContractError for an order that lacks an axis.
std::optional<AxisLayouts> axis_layouts(const RankOrder& order, const ParallelDims& dims);

}  // namespace sx
