// Lists a model's parameters from its shape, and counts parameters and flops from that list.
#include "sextant/shape/inventory.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// Appends parameters in checkpoint order.
class Lister {
 public:
  Lister(const ModelShape& shape, VocabRows rows)
      : s_(shape), vocab_(rows == VocabRows::kPadded ? shape.padded_vocab() : shape.vocab_size) {}

  std::vector<ParamInfo> list() && {
    embeddings();
    for (layer_ = 0; layer_ < s_.num_layers; ++layer_) layer();
    layer_ = -1;
    norm("norm");
    if (!s_.tie_embeddings) matrix("output", {vocab_, s_.hidden}, ParamRole::kHead, 0, false);
    return std::move(params_);
  }

 private:
  ParamInfo& add(std::string name, std::vector<std::int64_t> global_shape, ParamRole role) {
    ParamInfo info;
    info.name = std::move(name);
    info.num_elements = 1;
    for (const std::int64_t extent : global_shape) info.num_elements *= extent;
    info.global_shape = std::move(global_shape);
    info.layer_idx = layer_;
    info.role = role;
    params_.push_back(std::move(info));
    return params_.back();
  }

  void matrix(const std::string& name, std::vector<std::int64_t> global_shape, ParamRole role,
              int tp_dim, bool bias) {
    const std::int64_t outputs = global_shape[0];
    ParamInfo& weight = add(name + ".weight", std::move(global_shape), role);
    weight.matmul = true;
    weight.decay = true;
    weight.tp_dim = tp_dim;
    if (bias) {
      ParamInfo& info = add(name + ".bias", {outputs}, role);
      info.tp_dim = tp_dim == 0 ? 0 : -1;
    }
  }

  void norm(const std::string& name) {
    add(name + ".weight", {s_.hidden}, ParamRole::kNorm);
    if (s_.norm == NormKind::kLayer) add(name + ".bias", {s_.hidden}, ParamRole::kNorm);
  }

  void embeddings() {
    ParamInfo& tokens = add("tok_embeddings.weight", {vocab_, s_.hidden}, ParamRole::kEmbed);
    tokens.tp_dim = 0;
    tokens.decay = true;
    tokens.matmul = s_.tie_embeddings;  // counts once, as the head it also is
    tokens.uses_per_token = s_.tie_embeddings ? 1.0 : 0.0;
    if (s_.tie_embeddings) tokens.tied_to = "output.weight";
    if (s_.positions == Positions::kLearned) {
      ParamInfo& info =
          add("pos_embeddings.weight", {s_.max_positions, s_.hidden}, ParamRole::kPos);
      info.decay = true;
      info.uses_per_token = 0.0;
    }
  }

  void layer() {
    const std::string prefix = fmt::format("layers.{}.", layer_);
    const std::int64_t width_q = s_.num_heads * s_.head_dim;
    const std::int64_t width_kv = s_.num_heads_kv * s_.head_dim;
    norm(prefix + "attention_norm");
    const std::string attention = prefix + "attention.";
    matrix(attention + "wq", {width_q, s_.hidden}, ParamRole::kQ, 0, s_.qkv_bias);
    matrix(attention + "wk", {width_kv, s_.hidden}, ParamRole::kK, 0, s_.qkv_bias);
    matrix(attention + "wv", {width_kv, s_.hidden}, ParamRole::kV, 0, s_.qkv_bias);
    matrix(attention + "wo", {s_.hidden, width_q}, ParamRole::kO, 1, s_.linear_bias);
    if (s_.qk_norm) {
      add(attention + "q_norm.weight", {s_.head_dim}, ParamRole::kNorm);
      add(attention + "k_norm.weight", {s_.head_dim}, ParamRole::kNorm);
    }
    norm(prefix + "ffn_norm");
    if (s_.is_moe_layer(layer_)) {
      experts(prefix + "moe.");
    } else {
      feed_forward(prefix + "feed_forward.", s_.ffn_hidden, s_.linear_bias);
    }
  }

  void feed_forward(const std::string& prefix, std::int64_t width, bool bias) {
    if (is_gated(s_.activation)) {
      matrix(prefix + "gate", {width, s_.hidden}, ParamRole::kGate, 0, bias);
    }
    matrix(prefix + "up", {width, s_.hidden}, ParamRole::kUp, 0, bias);
    matrix(prefix + "down", {s_.hidden, width}, ParamRole::kDown, 1, bias);
  }

  void experts(const std::string& prefix) {
    matrix(prefix + "router", {s_.num_experts, s_.hidden}, ParamRole::kRouter, -1, false);
    const auto expert = [&](const char* name, std::int64_t outputs, std::int64_t inputs,
                            ParamRole role) {
      ParamInfo& info =
          add(prefix + "experts." + name + ".weight", {s_.num_experts, outputs, inputs}, role);
      info.matmul = true;
      info.decay = true;
      info.ep = true;
      info.uses_per_token =
          static_cast<double>(s_.experts_topk) / static_cast<double>(s_.num_experts);
    };
    if (is_gated(s_.activation))
      expert("gate", s_.expert_hidden, s_.hidden, ParamRole::kExpertGate);
    expert("up", s_.expert_hidden, s_.hidden, ParamRole::kExpertUp);
    expert("down", s_.hidden, s_.expert_hidden, ParamRole::kExpertDown);
    if (s_.num_shared_experts > 0) {
      const std::size_t first = params_.size();
      feed_forward(prefix + "shared.", s_.num_shared_experts * s_.shared_expert_hidden, false);
      for (std::size_t i = first; i < params_.size(); ++i) params_[i].role = ParamRole::kShared;
    }
  }

  const ModelShape& s_;
  std::int64_t vocab_;
  std::int64_t layer_ = -1;
  std::vector<ParamInfo> params_;
};

/// Elements of `info` that one token uses; whole numbers, since k*E divides out of the expert
/// count.
std::int64_t used_elements(const ModelShape& shape, const ParamInfo& info) {
  return info.ep ? info.num_elements / shape.num_experts * shape.experts_topk : info.num_elements;
}

}  // namespace

const char* to_string(ParamRole role) {
  constexpr const char* kNames[] = {
      "embed", "pos",  "norm",   "q",           "k",         "v",           "o",      "gate",
      "up",    "down", "router", "expert_gate", "expert_up", "expert_down", "shared", "head"};
  return kNames[static_cast<std::size_t>(role)];
}

std::vector<ParamInfo> inventory(const ModelShape& shape, VocabRows rows) {
  const std::vector<ShapeFault> faults = shape.validate();
  SX_CHECK(faults.empty(), "shape {} has {} faults, first: {} (rule: {})", shape.name,
           faults.size(), faults.front().what, faults.front().rule);
  return Lister(shape, rows).list();
}

std::int64_t num_params(const ModelShape& shape) {
  std::int64_t total = 0;
  for (const ParamInfo& info : inventory(shape, VocabRows::kReal)) total += info.num_elements;
  return total;
}

std::int64_t num_params_active(const ModelShape& shape) {
  std::int64_t total = 0;
  for (const ParamInfo& info : inventory(shape, VocabRows::kReal))
    total += used_elements(shape, info);
  return total;
}

std::int64_t num_params_matrices(const ModelShape& shape) {
  std::int64_t total = 0;
  for (const ParamInfo& info : inventory(shape, VocabRows::kReal)) {
    if (info.global_shape.size() >= 2) total += info.num_elements;
  }
  return total;
}

std::int64_t num_params_matmul(const ModelShape& shape) {
  std::int64_t total = 0;
  for (const ParamInfo& info : inventory(shape, VocabRows::kReal)) {
    if (info.matmul) total += used_elements(shape, info);
  }
  return total;
}

double attention_flops_per_token(const ModelShape& shape, std::int64_t seq_len) {
  return 12.0 * static_cast<double>(shape.num_layers) * static_cast<double>(shape.num_heads) *
         static_cast<double>(shape.head_dim) * static_cast<double>(seq_len);
}

double model_flops_per_token(const ModelShape& shape, std::int64_t seq_len) {
  return 6.0 * static_cast<double>(num_params_matmul(shape)) +
         attention_flops_per_token(shape, seq_len);
}

double model_flops_causal_per_token(const ModelShape& shape, std::int64_t seq_len) {
  return 6.0 * static_cast<double>(num_params_matmul(shape)) +
         attention_flops_per_token(shape, seq_len) / 2.0;
}

}  // namespace sx
