#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/ep/router.h"

namespace sx {

/// Over what the shares of the experts are counted.
enum class AuxScope : std::uint8_t {
  kSequence,    ///< each sequence by itself; does not depend on the layout
  kGlobal,      ///< the global batch before this one; does not depend on the layout
  kMicrobatch,  ///< one microbatch of the ranks that share its sequences; depends on how a batch is
                ///< cut, and is there to reproduce others' curves
};

struct BalanceOptions {
  AuxScope scope = AuxScope::kSequence;
  double aux_coeff = 0.0;
  double z_coeff = 0.0;
  double bias_update_rate = 0.001;  ///< for routers with a score bias
};

/// Tokens of the whole step that are no padding, over all microbatches and ranks: the divisor of
/// every balance loss. Its own type, so that a rank's count is not taken for it.
struct RoutedTokens {
  std::int64_t global = 0;
};

/// What the terms of one microbatch are made of. Undefined padding: none.
struct BalanceInput {
  const Routing& routing;
  std::int64_t num_sequences = 1;  ///< the microbatch's; each has T / num_sequences own tokens
  at::Tensor padding_T{};
  RoutedTokens routed{};
  std::int64_t num_microbatches = 1;  ///< of the step; for AuxScope::kMicrobatch
};

/// How often experts were chosen, as integers: counts[q][e] over the own tokens of sequence q.
/// Shapes:  experts [T, K]; result [Q, E] int64.
at::Tensor count_choices(const at::Tensor& experts_TK, std::int64_t num_sequences,
                         std::int64_t num_experts);

/// The balance loss of the own tokens, without its coefficient, a scalar; the sum over ranks and
/// microbatches is the loss of the step. With P the normalised scores without bias, n counts of
/// choices, N_r all routed tokens of the step:
///   sequence    sum over q of (T_q / N_r) E / (k T_q^2) sum_i n_i(q) sum_x P_i(x)
///   global      E / k sum_i f_i (sum_x P_i(x)) / N_r, f the shares of the batch before (k / E
///   first) microbatch  E / (k T^2) sum_i n_i sum_x P_i(x) / m, T and n over the microbatch
/// `sequence`: the ranks that have the parts of the same sequences (cp x tp); integer sums over it.
/// `shares_E`: f, for AuxScope::kGlobal.
/// Source:  Fedus et al., arXiv 2101.03961, eq. 4; sequence-wise: DeepSeek-V3, 2412.19437, eq. 17.
at::Tensor aux_loss(const BalanceInput& input, AuxScope scope, const RouterOptions& router,
                    Communicator& sequence, const at::Tensor& shares_E);

/// sum over own tokens of logsumexp(logits)^2 / N_r (Zoph et al., arXiv 2202.08906, eq. 5).
at::Tensor z_loss(const BalanceInput& input);

/// `y` unchanged, through which `loss` gets the gradient `seed` in backward: a loss that needs no
/// way out of the model.
at::Tensor attach_loss(const at::Tensor& y, const at::Tensor& loss, double seed);

/// What a layer remembers from one step to the next, and counts within one.
class BalanceState {
 public:
  BalanceState(std::int64_t num_experts, std::int64_t topk);

  /// Adds a microbatch's choices. Call it where gradients are recorded only: then evaluation does
  /// not count, and a layer that backward computes again counts once.
  void count(const at::Tensor& counts_QE);
  /// End of a step: sums the counts over `tokens` (all ranks with different tokens: data x cp x
  /// tp); new shares; bias_i += rate * sign(mean - n_i) if there is one. A step without tokens
  /// changes nothing.
  void finish_step(Communicator& tokens, const at::Tensor& bias_E, double rate);

  /// [E] fp64: choices of expert i per token of the last global batch; state of a checkpoint.
  const at::Tensor& shares() const { return shares_E_; }
  void set_shares(const at::Tensor& shares_E);
  /// Choices since the last step ended, own tokens.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  std::int64_t topk_;
  std::vector<std::int64_t> counts_;
  at::Tensor shares_E_;
};

}  // namespace sx
