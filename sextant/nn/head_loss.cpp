// Head and cross entropy chunk by chunk. Within a chunk, softmax and its gradient run over a few
// rows at a time, so that they stay in the cache of one core. Letters: T tokens, C tokens of a
// chunk, R rows at a time, V vocabulary, H hidden.
#include "sextant/nn/head_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/nn/loss.h"

namespace sx {
namespace {

constexpr std::int64_t kRowsBytes = std::int64_t{1} << 20;  // logits of the rows taken at a time

std::int64_t rows_within(std::int64_t bytes, std::int64_t columns, std::int64_t element_size) {
  return std::max<std::int64_t>(1, bytes / (columns * element_size));
}

/// logits_CV (without padding) become (softmax - onehot) * weight when `grad`; loss_C receives the
/// losses. weight_C is 0 where a token does not count.
void softmax_and_loss(at::Tensor logits_CV, const at::Tensor& target_C1, const at::Tensor& weight_C,
                      at::Tensor loss_C, bool grad) {
  const bool narrow = logits_CV.scalar_type() != loss_C.scalar_type();
  const std::int64_t rows =
      rows_within(kRowsBytes, logits_CV.size(1), static_cast<std::int64_t>(loss_C.element_size()));
  const at::Tensor minus_one = at::full({1, 1}, -1.0, loss_C.options());
  for (std::int64_t begin = 0; begin < logits_CV.size(0); begin += rows) {
    const std::int64_t count = std::min(rows, logits_CV.size(0) - begin);
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, count); };
    at::Tensor z_RV = narrow ? part(logits_CV).to(loss_C.scalar_type()) : part(logits_CV);
    const at::Tensor target_R1 = part(target_C1);
    const at::Tensor top_R1 = z_RV.amax(1, /*keepdim=*/true);
    const at::Tensor picked_R = z_RV.gather(1, target_R1).sub_(top_R1).squeeze(1);
    z_RV.sub_(top_R1).exp_();
    const at::Tensor sum_R1 = z_RV.sum(1, /*keepdim=*/true);
    part(loss_C).copy_(sum_R1.squeeze(1).log().sub_(picked_R));
    if (!grad) continue;
    const at::Tensor weight_R1 = part(weight_C).unsqueeze(1);
    z_RV.mul_(weight_R1.div(sum_R1));
    z_RV.scatter_add_(1, target_R1, minus_one.mul(weight_R1));
    // An uncounted token may have an infinite logit: 0 times that is not 0.
    if (weight_R1.min().item<double>() == 0) z_RV.masked_fill_(weight_R1.eq(0), 0.0);
    if (narrow) part(logits_CV).copy_(z_RV);
  }
}

struct HeadCrossEntropySum : torch::autograd::Function<HeadCrossEntropySum> {
  /// x_TH, weight_VH; target_T1 int64; weight_T 1 or 0 in the loss's dtype.
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x_TH,
                            const at::Tensor& weight_VH, const at::Tensor& target_T1,
                            const at::Tensor& weight_T, std::int64_t vocab_size,
                            std::int64_t chunk_bytes, double grad_seed, bool grad) {
    const std::int64_t tokens = x_TH.size(0);
    const std::int64_t chunk =
        rows_within(chunk_bytes, weight_VH.size(0), static_cast<std::int64_t>(x_TH.element_size()));
    const std::int64_t padding = weight_VH.size(0) - vocab_size;
    at::Tensor loss_T = at::empty({tokens}, weight_T.options());
    const at::Tensor seeded_T = grad_seed == 1.0 ? weight_T : weight_T.mul(grad_seed);
    at::Tensor grad_x_TH, grad_weight_VH;
    if (grad) {
      grad_x_TH = at::empty_like(x_TH);
      grad_weight_VH = at::empty(weight_VH.sizes(), weight_VH.options());
    }
    for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
      const std::int64_t count = std::min(chunk, tokens - begin);
      const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, count); };
      // Padding columns are made too: rows of whole vector registers multiply faster.
      const at::Tensor logits_CV = at::mm(part(x_TH), weight_VH.t());
      softmax_and_loss(logits_CV.narrow(1, 0, vocab_size), part(target_T1), part(seeded_T),
                       part(loss_T), grad);
      if (!grad) continue;
      logits_CV.narrow(1, vocab_size, padding).zero_();
      at::Tensor grad_x_CH = part(grad_x_TH);
      at::mm_out(grad_x_CH, logits_CV, weight_VH);
      if (begin == 0) {
        at::mm_out(grad_weight_VH, logits_CV.t(), part(x_TH));
      } else {
        grad_weight_VH.add_(at::mm(logits_CV.t(), part(x_TH)));
      }
    }
    if (grad) {
      if (tokens == 0) grad_weight_VH.zero_();
      ctx->save_for_backward({grad_x_TH, grad_weight_VH});
      ctx->saved_data["grad_seed"] = grad_seed;
    }
    // where, not a product: a token that does not count may have an infinite logit.
    return at::where(weight_T.ne(0), loss_T, at::zeros({}, loss_T.options())).sum();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    at::Tensor grad_x_TH = saved[0], grad_weight_VH = saved[1];
    const double seed = ctx->saved_data["grad_seed"].toDouble();
    const at::Tensor factor = seed == 1.0 ? grads[0] : grads[0].div(seed);
    return {grad_x_TH.mul_(factor), grad_weight_VH.mul_(factor),
            at::Tensor(),           at::Tensor(),
            at::Tensor(),           at::Tensor(),
            at::Tensor(),           at::Tensor()};
  }
};

}  // namespace

at::Tensor head_cross_entropy_sum(const at::Tensor& x_BSH, const at::Tensor& weight_VH,
                                  const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS,
                                  std::int64_t vocab_size, std::int64_t chunk_bytes,
                                  double grad_seed) {
  SX_CHECK(weight_VH.dim() == 2 && x_BSH.size(-1) == weight_VH.size(1) &&
               x_BSH.scalar_type() == weight_VH.scalar_type(),
           "hidden states of width {} for a head of width {}, or dtypes differ", x_BSH.size(-1),
           weight_VH.size(1));
  SX_CHECK(grad_seed > 0, "gradients seeded with {}", grad_seed);
  SX_CHECK(vocab_size >= 1 && vocab_size <= weight_VH.size(0), "vocabulary of {} in {} rows",
           vocab_size, weight_VH.size(0));
  const at::Tensor x_TH = x_BSH.reshape({-1, x_BSH.size(-1)});
  const LossTargets targets = loss_targets(targets_BS, loss_mask_BS, vocab_size);
  SX_CHECK(targets.target_T1.size(0) == x_TH.size(0), "{} targets for {} rows",
           targets.target_T1.size(0), x_TH.size(0));
  const bool wide = x_BSH.scalar_type() == c10::kDouble;
  const at::Tensor weight_T = targets.counts_T.to(wide ? c10::kDouble : c10::kFloat);
  const bool grad =
      at::GradMode::is_enabled() && (x_TH.requires_grad() || weight_VH.requires_grad());
  return HeadCrossEntropySum::apply(x_TH, weight_VH, targets.target_T1, weight_T, vocab_size,
                                    chunk_bytes, grad_seed, grad);
}

}  // namespace sx
