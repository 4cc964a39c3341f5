#include "sextant/ep/balance.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/check.h"

namespace sx {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AttachLoss : torch::autograd::Function<AttachLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const at::Tensor& loss,
                            double seed) {
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["loss"] = loss.detach();
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor loss = ctx->saved_data["loss"].toTensor();
    return {grads[0], at::full({}, ctx->saved_data["seed"].toDouble(), loss.options()),
            at::Tensor()};
  }
};

/// Own tokens of each sequence that are no padding, [Q].
at::Tensor real_tokens(const BalanceInput& input) {
  const std::int64_t tokens = input.routing.experts_TK.size(0), q = input.num_sequences;
  if (!input.padding_T.defined()) return at::full({q}, tokens / q, c10::kLong);
  return input.padding_T.logical_not().view({q, tokens / q}).sum(1);
}

/// [T, 1] of 1 and 0.
at::Tensor keep(const BalanceInput& input, const at::Tensor& like) {
  return input.padding_T.logical_not().to(like.scalar_type()).unsqueeze(1);
}

double divisor(RoutedTokens routed) {
  return static_cast<double>(std::max<std::int64_t>(routed.global, 1));
}

/// The gradient of the loss by each P_i(x) of a sequence, [Q, E] or [1, E], double.
at::Tensor slopes(const BalanceInput& input, AuxScope scope, const RouterOptions& router,
                  Communicator& sequence, const at::Tensor& shares_E) {
  const double experts = static_cast<double>(router.num_experts);
  const double topk = static_cast<double>(router.topk);
  if (scope == AuxScope::kGlobal) {
    SX_CHECK(shares_E.defined(), "the shares of the batch before are needed");
    return shares_E.mul(experts / topk / divisor(input.routed)).unsqueeze(0);
  }
  at::Tensor counts =
      count_choices(input.routing.experts_TK, input.num_sequences, router.num_experts);
  at::Tensor tokens = real_tokens(input);
  if (sequence.degree() > 1) {
    at::Tensor both = at::empty({input.num_sequences, router.num_experts + 1}, c10::kLong);
    both.narrow(1, 0, router.num_experts).copy_(counts);
    both.select(1, router.num_experts).copy_(tokens);
    sequence.start_all_reduce(both.view({-1}), ReduceOp::kSum, {.unit = "router counts"}).wait();
    counts = both.narrow(1, 0, router.num_experts);
    tokens = both.select(1, router.num_experts);
  }
  if (scope == AuxScope::kMicrobatch) {
    counts = counts.sum(0, true);
    tokens = tokens.sum(0, true);
  }
  tokens = tokens.clamp_min(1).to(c10::kDouble).unsqueeze(1);
  const at::Tensor per_token = counts.to(c10::kDouble).div(tokens).mul(experts / topk);
  return scope == AuxScope::kSequence
             ? per_token.div(divisor(input.routed))
             : per_token.div(tokens).div(static_cast<double>(input.num_microbatches));
}

}  // namespace

at::Tensor count_choices(const at::Tensor& experts_TK, std::int64_t num_sequences,
                         std::int64_t num_experts) {
  const std::int64_t tokens = experts_TK.size(0), topk = experts_TK.size(1);
  SX_CHECK(num_sequences >= 1 && tokens % num_sequences == 0, "{} tokens in {} sequences", tokens,
           num_sequences);
  at::Tensor counts = at::zeros({num_sequences, num_experts}, c10::kLong);
  const at::Tensor host = experts_TK.contiguous();
  const auto* from = host.const_data_ptr<std::int32_t>();
  auto* to = counts.mutable_data_ptr<std::int64_t>();
  const std::int64_t pairs = tokens / num_sequences * topk;
  for (std::int64_t q = 0; q < num_sequences; ++q, to += num_experts) {
    for (std::int64_t i = 0; i < pairs; ++i, ++from)
      if (*from >= 0) ++to[*from];
  }
  return counts;
}

at::Tensor aux_loss(const BalanceInput& input, AuxScope scope, const RouterOptions& router,
                    Communicator& sequence, const at::Tensor& shares_E) {
  const at::Tensor& scores = input.routing.scores_TE;
  at::Tensor slope = slopes(input, scope, router, sequence, shares_E).to(scores.scalar_type());
  const std::int64_t own = scores.size(0) / input.num_sequences;
  if (slope.size(0) == input.num_sequences) slope = slope.repeat_interleave(own, 0);
  if (input.padding_T.defined()) slope = slope.mul(keep(input, slope));
  return scores.mul(slope).sum();
}

at::Tensor z_loss(const BalanceInput& input) {
  at::Tensor squares = at::logsumexp(input.routing.logits_TE, {1}, true).square();
  if (input.padding_T.defined()) squares = squares.mul(keep(input, squares));
  return squares.sum().div(divisor(input.routed));
}

at::Tensor attach_loss(const at::Tensor& y, const at::Tensor& loss, double seed) {
  return AttachLoss::apply(y, loss, seed);
}

BalanceState::BalanceState(std::int64_t num_experts, std::int64_t topk)
    : topk_(topk),
      counts_(static_cast<std::size_t>(num_experts), 0),
      shares_E_(at::full({num_experts},
                         static_cast<double>(topk) / static_cast<double>(num_experts),
                         c10::kDouble)) {}

void BalanceState::count(const at::Tensor& counts_QE) {
  const at::Tensor sum = counts_QE.sum(0).contiguous();
  const auto* from = sum.const_data_ptr<std::int64_t>();
  for (std::size_t e = 0; e < counts_.size(); ++e) counts_[e] += from[e];
}

void BalanceState::finish_step(Communicator& tokens, const at::Tensor& bias_E, double rate) {
  const auto experts = static_cast<std::int64_t>(counts_.size());
  at::Tensor all = at::empty({experts}, c10::kLong);
  auto* data = all.mutable_data_ptr<std::int64_t>();
  std::copy(counts_.begin(), counts_.end(), data);
  if (tokens.degree() > 1) {
    tokens.start_all_reduce(all, ReduceOp::kSum, {.unit = "router counts"}).wait();
  }
  std::fill(counts_.begin(), counts_.end(), 0);
  const std::int64_t total = std::accumulate(data, data + experts, std::int64_t{0});
  if (total == 0) return;
  shares_E_ = all.to(c10::kDouble).mul(static_cast<double>(topk_) / static_cast<double>(total));
  if (!bias_E.defined()) return;
  at::Tensor bias = bias_E.detach();
  SX_CHECK(bias.scalar_type() == c10::kFloat && bias.is_contiguous(), "the score bias is fp32");
  auto* values = bias.mutable_data_ptr<float>();
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t excess = data[e] * experts - total;  // n_i against the mean, exactly
    if (excess != 0) values[e] += static_cast<float>(excess < 0 ? rate : -rate);
  }
}

void BalanceState::set_shares(const at::Tensor& shares_E) {
  SX_CHECK(shares_E.numel() == static_cast<std::int64_t>(counts_.size()), "{} shares of {} experts",
           shares_E.numel(), counts_.size());
  shares_E_ = shares_E.detach().to(c10::kDouble).clone();
}

}  // namespace sx
