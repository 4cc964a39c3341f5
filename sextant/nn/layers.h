#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sextant/nn/attention.h"
#include "sextant/nn/kv_cache.h"
#include "sextant/nn/module.h"
#include "sextant/nn/rope.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// y = x W^T + b, W [out, in]. In a narrower compute dtype the weight is cast for the product.
class Linear : public Module {
 public:
  Linear(Module& parent, std::string name, std::int64_t out_features, std::int64_t in_features,
         bool bias, double init_std, std::int64_t valid_rows = -1);
  at::Tensor forward(const at::Tensor& x) const;

  Parameter& weight() const { return *weight_; }

 private:
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

/// Rows of a table by index.
class Embedding : public Module {
 public:
  Embedding(Module& parent, std::string name, std::int64_t rows, std::int64_t hidden,
            double init_std, std::int64_t valid_rows = -1);
  at::Tensor forward(const at::Tensor& indices_BS);
  Parameter& weight() const { return *weight_; }

 private:
  Parameter* weight_ = nullptr;
};

/// RMS norm (arXiv 1910.07467) or layer norm (1607.06450) over the last dimension.
class Norm : public Module {
 public:
  Norm(Module& parent, std::string name, std::int64_t width, NormKind kind, double eps);
  at::Tensor forward(const at::Tensor& x) const;
  void set_recompute(bool on) { recompute_ = on; }

 private:
  std::int64_t width_;
  double eps_;
  bool recompute_ = false;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

/// What the blocks of one forward pass share.
struct AttentionContext {
  std::vector<AttentionSegment> segments;  ///< documents of the microbatch
  at::Tensor cos_BSR, sin_BSR;  ///< rotation of each token, R = D/2; undefined without RoPE
  KvCache* cache = nullptr;
};

/// Causal self-attention with grouped queries.
class Attention : public Module {
 public:
  Attention(Module& parent, std::int64_t layer_idx, const ModelShape& shape);
  at::Tensor forward(const at::Tensor& x_BSH, const AttentionContext& context) const;
  /// The attention itself keeps q, k and v only and is done again in backward.
  void set_recompute(bool on) { recompute_ = on; }

 private:
  std::int64_t layer_idx_, num_heads_, num_heads_kv_, head_dim_;
  bool recompute_ = false;
  Linear wq_, wk_, wv_, wo_;
  std::unique_ptr<Norm> q_norm_, k_norm_;
};

/// The function between the matrices of an MLP; of the gate for gated ones.
at::Tensor activate(Activation activation, const at::Tensor& x);

/// down(act(gate(x)) * up(x)) for gated activations, down(act(up(x))) for the others.
class FeedForward : public Module {
 public:
  FeedForward(Module& parent, const ModelShape& shape);
  at::Tensor forward(const at::Tensor& x_BSH) const;
  /// The activation (and the product with the gate) keeps its inputs only.
  void set_recompute(bool on) { recompute_ = on; }

 private:
  at::Tensor activated(const at::Tensor& x_BSH) const;

  Activation activation_;
  bool recompute_ = false;
  std::unique_ptr<Linear> gate_;
  Linear up_, down_;
};

}  // namespace sx
