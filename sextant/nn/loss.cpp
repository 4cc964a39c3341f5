// Cross entropy over the vocabulary, forward and backward by hand: between the two only the logits
// and three numbers per token are kept, and the gradient is the one tensor of logit size that is
// made. Letters: T = B*S tokens, V vocabulary with padding.
#include "sextant/nn/loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

at::Tensor counted(const at::Tensor& targets, const at::Tensor& loss_mask) {
  const at::Tensor valid = targets.ge(0);
  return loss_mask.defined() ? valid.logical_and(loss_mask.ne(0)) : valid;
}

bool is_narrow(const at::Tensor& logits) {
  return logits.scalar_type() == c10::kBFloat16 || logits.scalar_type() == c10::kHalf;
}

struct CrossEntropySum : torch::autograd::Function<CrossEntropySum> {
  /// logits_TV, target_T1 int64 within the vocabulary, weight_T 1 or 0 in the loss's dtype.
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& logits_TV,
                            const at::Tensor& target_T1, const at::Tensor& weight_T,
                            std::int64_t vocab_size) {
    at::Tensor z = logits_TV.narrow(1, 0, vocab_size);
    if (is_narrow(logits_TV)) z = z.to(c10::kFloat);
    const at::Tensor lse_T = z.logsumexp(1);
    const at::Tensor loss_T = lse_T.sub(z.gather(1, target_T1).squeeze(1));
    ctx->save_for_backward({logits_TV, target_T1, weight_T, lse_T});
    ctx->saved_data["vocab_size"] = vocab_size;
    // where, not a product: a token that does not count may have an infinite logit.
    return at::where(weight_T.ne(0), loss_T, at::zeros({}, loss_T.options())).sum();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &logits_TV = saved[0], &target_T1 = saved[1], &weight_T = saved[2],
                     &lse_T = saved[3];
    const std::int64_t vocab_size = ctx->saved_data["vocab_size"].toInt();
    const std::int64_t padding = logits_TV.size(1) - vocab_size;
    // d loss / d z = (softmax(z) - onehot(target)) * weight * grad
    at::Tensor grad_TV =
        at::empty(logits_TV.sizes(), logits_TV.options().dtype(lse_T.scalar_type()));
    at::Tensor grad_z = grad_TV.narrow(1, 0, vocab_size);
    at::sub_out(grad_z, logits_TV.narrow(1, 0, vocab_size), lse_T.unsqueeze(1));
    grad_z.exp_();
    grad_z.scatter_add_(1, target_T1,
                        at::full({1, 1}, -1.0, grad_z.options()).expand_as(target_T1));
    grad_z.mul_(weight_T.mul(grads[0]).unsqueeze(1));
    if (padding > 0) grad_TV.narrow(1, vocab_size, padding).zero_();
    return {grad_TV.to(logits_TV.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::int64_t count_loss_tokens(const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS) {
  return counted(targets_BS, loss_mask_BS).sum().item<std::int64_t>();
}

LossTargets loss_targets(const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS,
                         std::int64_t vocab_size) {
  SX_CHECK(!loss_mask_BS.defined() || loss_mask_BS.sizes() == targets_BS.sizes(),
           "loss mask and targets differ in shape");
  const at::Tensor targets = targets_BS.to(c10::kLong);
  const at::Tensor counts = counted(targets, loss_mask_BS);
  const at::Tensor target_T1 =
      at::where(counts, targets, at::zeros({}, targets.options())).view({-1, 1});
  if (target_T1.numel() > 0) {
    const std::int64_t largest = target_T1.max().item<std::int64_t>();
    SX_CHECK(largest < vocab_size, "target {} in a vocabulary of {}", largest, vocab_size);
  }
  return {target_T1, counts.view({-1})};
}

at::Tensor cross_entropy_sum(const at::Tensor& logits_BSV, const at::Tensor& targets_BS,
                             const at::Tensor& loss_mask_BS, std::int64_t vocab_size) {
  const std::int64_t columns = logits_BSV.size(-1);
  SX_CHECK(vocab_size >= 1 && vocab_size <= columns, "vocabulary of {} in {} columns", vocab_size,
           columns);
  SX_CHECK(targets_BS.numel() * columns == logits_BSV.numel(), "{} targets for {} rows of logits",
           targets_BS.numel(), logits_BSV.numel() / columns);
  const LossTargets targets = loss_targets(targets_BS, loss_mask_BS, vocab_size);
  const bool wide = logits_BSV.scalar_type() == c10::kDouble;
  const at::Tensor weight_T = targets.counts_T.to(wide ? c10::kDouble : c10::kFloat);
  return CrossEntropySum::apply(logits_BSV.reshape({-1, columns}), targets.target_T1, weight_T,
                                vocab_size);
}

}  // namespace sx
