#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "sextant/cp/block_attention.h"
#include "sextant/cp/cp_comms.h"
#include "sextant/cp/cp_plan.h"

namespace sx {

/// Attention over sequences whose tokens are spread over the ranks of an axis: on each rank the
/// rows that attention over the whole row has for its tokens, whatever the kind.
///
/// Made once for a layout of tokens (per microbatch at most) and used by all layers of that kind.
/// Head counts are those of each call, so several models may share one.
///
/// Threads: used by its rank's thread; calls, and their backward passes, come in the same order on
///          every rank.
/// Errors:  ContractError for shapes that do not fit the plan; DistError.
class ContextAttention {
 public:
  /// `comms` lives longer than every graph made here.
  ContextAttention(CpKind kind, std::shared_ptr<const CpPlan> plan, CpComms& comms,
                   BlockDtype block_dtype = BlockDtype::kFp32);
  ~ContextAttention();
  ContextAttention(ContextAttention&&) noexcept;
  ContextAttention& operator=(ContextAttention&&) noexcept;

  /// Differentiable; one autograd function.
  ///
  /// Shapes:  q_BTND, k_BTGD, v_BTGD, T being the plan's tokens of this rank in their order; G
  ///          divides N; T may be 0. Returns out_BTND.
  /// sink_N:  a learned logit per head that takes part in every softmax; may be undefined. Its
  ///          gradient is this rank's part: to be summed over the axis like that of any parameter.
  /// Keeps for backward: q, k, v, out, and 4 bytes per head and token (8 in fp64), for the rank's
  ///          own tokens (or as many: under Ulysses the group's tokens of the rank's heads).
  /// With degree 1 and a causal mask it is `causal_attention`: no copy, no collective, same bits.
  at::Tensor operator()(const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                        const at::Tensor& v_BTGD, const at::Tensor& sink_N = {}) const;

  const CpPlan& plan() const;

 private:
  struct Routes;
  struct Function;
  std::shared_ptr<const Routes> routes_;
};

}  // namespace sx
