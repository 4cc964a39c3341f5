// The pieces of a decoder block. Parameters keep their dtype; with a narrower compute dtype a
// parameter is cast where it is used, and autograd casts its gradient back.
#include "sextant/nn/layers.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>

#include <cmath>

#include "sextant/base/check.h"
#include "sextant/nn/recompute.h"

namespace sx {
namespace {

InitSpec normal(double std, std::int64_t valid_rows = -1) {
  return {InitKind::kNormal, 0.0, std, valid_rows};
}

/// Matrices that write into the residual stream start smaller, by sqrt(number of such matrices)
/// (GPT-2, section 2.3).
double residual_std(const ModelShape& shape) {
  return shape.init_std / std::sqrt(2.0 * static_cast<double>(shape.num_layers));
}

at::Tensor cast(const Parameter& parameter, const at::Tensor& like) {
  return parameter.tensor.to(like.scalar_type());
}

}  // namespace

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSwiglu: return at::silu(x);
    case Activation::kGeglu: return at::gelu(x);
    case Activation::kGeluTanh: return at::gelu(x, "tanh");
    case Activation::kGelu: return at::gelu(x);
    case Activation::kRelu: return at::relu(x);
  }
  SX_CHECK(false, "activation {}", static_cast<int>(activation));
}

Linear::Linear(Module& parent, std::string name, std::int64_t out_features,
               std::int64_t in_features, bool bias, double init_std, std::int64_t valid_rows)
    : Module(parent, std::move(name)) {
  weight_ =
      &add_parameter("weight", {out_features, in_features}, normal(init_std, valid_rows), true);
  if (bias) bias_ = &add_parameter("bias", {out_features}, {InitKind::kZeros}, false);
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  if (bias_ == nullptr) return at::linear(x, cast(*weight_, x));
  return at::linear(x, cast(*weight_, x), cast(*bias_, x));
}

Embedding::Embedding(Module& parent, std::string name, std::int64_t rows, std::int64_t hidden,
                     double init_std, std::int64_t valid_rows)
    : Module(parent, std::move(name)) {
  weight_ = &add_parameter("weight", {rows, hidden}, normal(init_std, valid_rows), true);
  mark_unit();
}

at::Tensor Embedding::forward(const at::Tensor& indices_BS) {
  return call(indices_BS,
              [&](const at::Tensor& indices) { return at::embedding(weight_->tensor, indices); });
}

Norm::Norm(Module& parent, std::string name, std::int64_t width, NormKind kind, double eps)
    : Module(parent, std::move(name)), width_(width), eps_(eps) {
  weight_ = &add_parameter("weight", {width}, {InitKind::kOnes}, false);
  if (kind == NormKind::kLayer) bias_ = &add_parameter("bias", {width}, {InitKind::kZeros}, false);
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  const auto norm = [this](const at::Tensor& in) {
    if (bias_ == nullptr) return at::rms_norm(in, {width_}, cast(*weight_, in), eps_);
    return at::layer_norm(in, {width_}, cast(*weight_, in), cast(*bias_, in), eps_);
  };
  // A node of its own, so that what the norm sends back is one sum before it meets the residual's:
  // the same bits with recompute and without.
  if (!recompute_) return norm(x.view_as(x));
  return recompute([norm](at::TensorList again) { return norm(again[0]); }, {x});
}

Attention::Attention(Module& parent, std::int64_t layer_idx, const ModelShape& shape)
    : Module(parent, "attention"),
      layer_idx_(layer_idx),
      num_heads_(shape.num_heads),
      num_heads_kv_(shape.num_heads_kv),
      head_dim_(shape.head_dim),
      wq_(*this, "wq", num_heads_ * head_dim_, shape.hidden, shape.qkv_bias, shape.init_std),
      wk_(*this, "wk", num_heads_kv_ * head_dim_, shape.hidden, shape.qkv_bias, shape.init_std),
      wv_(*this, "wv", num_heads_kv_ * head_dim_, shape.hidden, shape.qkv_bias, shape.init_std),
      wo_(*this, "wo", shape.hidden, num_heads_ * head_dim_, shape.linear_bias,
          residual_std(shape)) {
  if (!shape.qk_norm) return;
  q_norm_ = std::make_unique<Norm>(*this, "q_norm", head_dim_, NormKind::kRms, shape.norm_eps);
  k_norm_ = std::make_unique<Norm>(*this, "k_norm", head_dim_, NormKind::kRms, shape.norm_eps);
}

at::Tensor Attention::forward(const at::Tensor& x_BSH, const AttentionContext& context) const {
  const std::int64_t batch = x_BSH.size(0), seq_len = x_BSH.size(1);
  at::Tensor q_BSND = wq_.forward(x_BSH).view({batch, seq_len, num_heads_, head_dim_});
  at::Tensor k_BSGD = wk_.forward(x_BSH).view({batch, seq_len, num_heads_kv_, head_dim_});
  const at::Tensor v_BSGD = wv_.forward(x_BSH).view({batch, seq_len, num_heads_kv_, head_dim_});
  if (q_norm_) {
    q_BSND = q_norm_->forward(q_BSND);
    k_BSGD = k_norm_->forward(k_BSGD);
  }
  if (context.cos_BSR.defined()) {
    q_BSND = apply_rope(q_BSND, context.cos_BSR, context.sin_BSR);
    k_BSGD = apply_rope(k_BSGD, context.cos_BSR, context.sin_BSR);
  }
  at::Tensor out_BSND;
  if (context.cache != nullptr) {
    const auto [k_BTGD, v_BTGD] = context.cache->append(layer_idx_, k_BSGD, v_BSGD);
    // The first tokens go the way they go without a cache.
    out_BSND = context.cache->length() == 0
                   ? causal_attention(q_BSND, k_BSGD, v_BSGD, whole_rows(batch, seq_len))
                   : cached_attention(q_BSND, k_BTGD, v_BTGD);
  } else {
    const auto attend = [segments = context.segments](at::TensorList qkv) {
      return causal_attention(qkv[0], qkv[1], qkv[2], segments);
    };
    const std::vector<at::Tensor> qkv{q_BSND, k_BSGD, v_BSGD};
    out_BSND = recompute_ ? recompute(attend, qkv) : attend(qkv);
  }
  return wo_.forward(out_BSND.reshape({batch, seq_len, num_heads_ * head_dim_}));
}

FeedForward::FeedForward(Module& parent, const ModelShape& shape)
    : Module(parent, "feed_forward"),
      activation_(shape.activation),
      gate_(is_gated(shape.activation)
                ? std::make_unique<Linear>(*this, "gate", shape.ffn_hidden, shape.hidden,
                                           shape.linear_bias, shape.init_std)
                : nullptr),
      up_(*this, "up", shape.ffn_hidden, shape.hidden, shape.linear_bias, shape.init_std),
      down_(*this, "down", shape.hidden, shape.ffn_hidden, shape.linear_bias, residual_std(shape)) {
}

at::Tensor FeedForward::activated(const at::Tensor& x_BSH) const {
  const std::vector<at::Tensor> inputs =
      gate_ ? std::vector<at::Tensor>{gate_->forward(x_BSH), up_.forward(x_BSH)}
            : std::vector<at::Tensor>{up_.forward(x_BSH)};
  const auto act = [activation = activation_](at::TensorList in) {
    const at::Tensor y = activate(activation, in[0]);
    return in.size() == 2 ? y.mul(in[1]) : y;
  };
  return recompute_ ? recompute(act, inputs) : act(inputs);
}

at::Tensor FeedForward::forward(const at::Tensor& x_BSH) const {
  return down_.forward(activated(x_BSH));
}

}  // namespace sx
