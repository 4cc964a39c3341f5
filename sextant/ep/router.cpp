#include "sextant/ep/router.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// Keeps a sum of scores from being zero; DeepSeek-V3's published code.
constexpr double kTinySum = 1e-20;

void check(const RouterOptions& o) {
  SX_CHECK(o.num_experts >= 1 && o.topk >= 1 && o.topk <= o.num_experts, "{} of {} experts", o.topk,
           o.num_experts);
  SX_CHECK(o.groups >= 1 && o.num_experts % o.groups == 0, "{} experts in {} groups", o.num_experts,
           o.groups);
  SX_CHECK(o.topk_groups >= 1 && o.topk_groups <= o.groups && o.topk % o.topk_groups == 0,
           "{} experts out of {} of {} groups", o.topk, o.topk_groups, o.groups);
  SX_CHECK(o.topk / o.topk_groups <= o.num_experts / o.groups, "{} experts a group, which has {}",
           o.topk / o.topk_groups, o.num_experts / o.groups);
}

/// The first `count` of `order` become those of the largest values, best first, ties by index.
void best_first(std::span<const double> values, std::vector<std::int32_t>& order,
                std::int64_t count) {
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const double x = values[static_cast<std::size_t>(a)];
                      const double y = values[static_cast<std::size_t>(b)];
                      return x > y || (x == y && a < b);
                    });
}

/// Chooses the experts of one token after the other.
class Chooser {
 public:
  explicit Chooser(const RouterOptions& options) : o_(options) {}

  void choose(std::span<const double> scores, std::int32_t* chosen) {
    candidates_.clear();
    if (o_.groups == 1) {
      for (std::int32_t e = 0; e < o_.num_experts; ++e) candidates_.push_back(e);
    } else {
      keep_groups(scores);
    }
    best_first(scores, candidates_, o_.topk);
    std::copy_n(candidates_.begin(), o_.topk, chosen);
  }

 private:
  void keep_groups(std::span<const double> scores) {
    const std::int64_t size = o_.num_experts / o_.groups, best = o_.topk / o_.topk_groups;
    totals_.assign(static_cast<std::size_t>(o_.groups), 0.0);
    groups_.clear();
    for (std::int64_t g = 0; g < o_.groups; ++g) {
      members_.clear();
      for (std::int64_t i = 0; i < size; ++i)
        members_.push_back(static_cast<std::int32_t>(g * size + i));
      best_first(scores, members_, best);
      for (std::int64_t i = 0; i < best; ++i) {
        totals_[static_cast<std::size_t>(g)] +=
            scores[static_cast<std::size_t>(members_[static_cast<std::size_t>(i)])];
      }
      groups_.push_back(static_cast<std::int32_t>(g));
    }
    for (double& total : totals_)
      if (std::isnan(total)) total = -std::numeric_limits<double>::infinity();
    best_first(totals_, groups_, o_.topk_groups);
    std::sort(groups_.begin(), groups_.begin() + o_.topk_groups);
    for (std::int64_t g = 0; g < o_.topk_groups; ++g) {
      for (std::int64_t i = 0; i < size; ++i) {
        candidates_.push_back(
            static_cast<std::int32_t>(groups_[static_cast<std::size_t>(g)] * size + i));
      }
    }
  }

  const RouterOptions& o_;
  std::vector<std::int32_t> candidates_, members_, groups_;
  std::vector<double> totals_;
};

at::Tensor choose_all(const at::Tensor& given, const at::Tensor& padding_T,
                      const RouterOptions& options) {
  const at::Tensor scores = given.detach().to(c10::kDouble).contiguous();
  const std::int64_t tokens = scores.size(0), experts = options.num_experts;
  at::Tensor chosen = at::empty({tokens, options.topk}, c10::kInt);
  const at::Tensor padding = padding_T.defined() ? padding_T.contiguous() : at::Tensor();
  const bool* skip = padding.defined() ? padding.const_data_ptr<bool>() : nullptr;
  const double* from = scores.const_data_ptr<double>();
  auto* to = chosen.mutable_data_ptr<std::int32_t>();
  Chooser chooser(options);
  std::vector<double> row(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < tokens; ++t, to += options.topk) {
    if (skip != nullptr && skip[t]) {
      std::fill_n(to, options.topk, -1);
      continue;
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      const double score = from[t * experts + e];
      row[static_cast<std::size_t>(e)] =
          std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
    }
    chooser.choose(row, to);
  }
  return chosen;
}

at::Tensor raw_scores(const at::Tensor& logits, RouterScore score) {
  switch (score) {
    case RouterScore::kSoftmax: return at::softmax(logits, 1);
    case RouterScore::kSigmoid: return at::sigmoid(logits);
    case RouterScore::kSqrtSoftplus: return at::sqrt(at::softplus(logits));
  }
  SX_CHECK(false, "score {}", static_cast<int>(score));
}

}  // namespace

Routing route(const at::Tensor& logits_TE, const at::Tensor& bias_E, const at::Tensor& padding_T,
              const RouterOptions& options) {
  check(options);
  SX_CHECK(logits_TE.dim() == 2 && logits_TE.size(1) == options.num_experts,
           "logits are [tokens, {}]", options.num_experts);
  const bool softmax = options.score == RouterScore::kSoftmax;
  const at::Tensor scores = raw_scores(logits_TE, options.score);
  // The logits order experts as their softmax does, without its rounding.
  const bool by_logits = softmax && !bias_E.defined() && options.groups == 1;
  at::Tensor biased = by_logits ? logits_TE.detach() : scores.detach();
  if (bias_E.defined()) biased = biased.add(bias_E.detach().to(biased.scalar_type()));

  Routing out;
  out.logits_TE = logits_TE;
  out.experts_TK = choose_all(biased, padding_T, options);
  const at::Tensor index = out.experts_TK.clamp_min(0).to(c10::kLong);  // padding: weights unused
  if (softmax && !options.norm_before_topk) {
    out.weights_TK = at::softmax(at::gather(logits_TE, 1, index), 1);
  } else {
    out.weights_TK = at::gather(scores, 1, index);
    if (options.topk > 1 && (!softmax || options.renormalise)) {
      out.weights_TK = out.weights_TK.div(out.weights_TK.sum(1, true).add(kTinySum));
    }
  }
  if (options.topk_scale != 1.0) out.weights_TK = out.weights_TK.mul(options.topk_scale);
  out.scores_TE = softmax ? scores : scores.div(scores.sum(1, true).add(kTinySum));
  return out;
}

Router::Router(Module& parent, std::string name, std::int64_t hidden, const RouterOptions& options,
               double init_std)
    : Module(parent, std::move(name)), options_(options) {
  check(options);
  weight_ = &add_parameter("weight", {options.num_experts, hidden},
                           {InitKind::kNormal, 0.0, init_std}, true);
  weight_->dtype = options.dtype;
  if (!options.score_bias) return;
  bias_ = &add_parameter("score_bias", {options.num_experts}, {InitKind::kZeros}, false);
  bias_->dtype = c10::kFloat;
  bias_->trainable = false;
}

Routing Router::forward(const at::Tensor& x_TH, const at::Tensor& padding_T) const {
  at::Tensor x = x_TH.to(options_.dtype);
  if (padding_T.defined()) x = x.masked_fill(padding_T.unsqueeze(1), 0.0);
  const at::Tensor logits = at::linear(x, weight_->tensor.to(options_.dtype));
  return route(logits, bias_ == nullptr ? at::Tensor() : bias_->tensor, padding_T, options_);
}

}  // namespace sx
