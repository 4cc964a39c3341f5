#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sextant/nn/module.h"

namespace sx {

enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid, kSqrtSoftplus };

struct RouterOptions {
  std::int64_t num_experts = 0, topk = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool norm_before_topk = false;  ///< softmax over all experts instead of over the chosen ones
  /// Weights of the chosen divided by their sum. Sigmoid-like scores of more than one expert always
  /// are; after a softmax over the chosen it changes nothing.
  bool renormalise = false;
  double topk_scale = 1.0;  ///< on the weights of the chosen
  /// Experts lie in equal groups; only the best `topk_groups` groups take part. A group's score is
  /// the sum of its best topk / topk_groups. With groups = machines: node-limited routing.
  std::int64_t groups = 1, topk_groups = 1;
  bool score_bias = false;  ///< a bias per expert that enters the choice only, never the weights
  c10::ScalarType dtype = c10::kFloat;  ///< of the gate's weight and product
};

/// Where the tokens of a microbatch go.
struct Routing {
  at::Tensor experts_TK;  ///< int32; by descending score; -1: padding, or dropped
  at::Tensor weights_TK;  ///< share of each in its token's result
  at::Tensor scores_TE;   ///< normalised over all experts, without bias: for the balance losses
  at::Tensor logits_TE;   ///< for the z-loss
};

/// The gate of a layer of experts: logits = x W^T in `dtype`, scores, choice, weights.
///
/// Choice: the k largest biased scores; equal ones by ascending expert; NaN counts as the smallest.
/// Padding tokens are cut out before the product: whatever they hold, they choose no expert and
/// have no gradient. Source:  softmax and choice: Shazeer et al., arXiv 1701.06538; groups, sigmoid
/// and bias:
///          DeepSeek-V3, 2412.19437, section 2.1.2.
class Router : public Module {
 public:
  /// Errors:  ContractError for sizes that do not fit (k > E, groups that do not divide E, ...).
  Router(Module& parent, std::string name, std::int64_t hidden, const RouterOptions& options,
         double init_std);

  /// Shapes:  x [T, H]; padding [T] bool, true = padding; may be undefined.
  Routing forward(const at::Tensor& x_TH, const at::Tensor& padding_T) const;

  const RouterOptions& options() const { return options_; }
  Parameter& weight() const { return *weight_; }
  /// [E] fp32, no gradient; null without bias.
  Parameter* score_bias() const { return bias_; }

 private:
  RouterOptions options_;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

/// Scores, choice and weights of given logits, differentiable. `bias_E` and `padding_T` may be
/// undefined.
Routing route(const at::Tensor& logits_TE, const at::Tensor& bias_E, const at::Tensor& padding_T,
              const RouterOptions& options);

}  // namespace sx
