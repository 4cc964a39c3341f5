// The model description: names of its choices, derivation of open sizes, the rules a shape must
// keep.
#include "sextant/shape/model_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace sx {
namespace {

template <class Enum>
Result<Enum> parse_name(std::string_view text, const std::vector<std::string>& names,
                        const char* what) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return Error{ErrorKind::kInvalid,
               fmt::format("{} \"{}\" is not known; known: {}", what, text, fmt::join(names, " ")),
               ""};
}

}  // namespace

const std::vector<std::string>& arch_names() {
  static const std::vector<std::string> names = {"llama", "gpt2",    "qwen2",
                                                 "qwen3", "mixtral", "custom"};
  return names;
}
const std::vector<std::string>& positions_names() {
  static const std::vector<std::string> names = {"rope", "learned", "none"};
  return names;
}
const std::vector<std::string>& norm_names() {
  static const std::vector<std::string> names = {"rms", "layer"};
  return names;
}
const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = {"swiglu", "geglu", "gelu_tanh", "gelu", "relu"};
  return names;
}

const char* to_string(Arch value) { return arch_names()[static_cast<std::size_t>(value)].c_str(); }
const char* to_string(Positions value) {
  return positions_names()[static_cast<std::size_t>(value)].c_str();
}
const char* to_string(NormKind value) {
  return norm_names()[static_cast<std::size_t>(value)].c_str();
}
const char* to_string(Activation value) {
  return activation_names()[static_cast<std::size_t>(value)].c_str();
}

Result<Arch> parse_arch(std::string_view text) {
  return parse_name<Arch>(text, arch_names(), "architecture");
}
Result<Positions> parse_positions(std::string_view text) {
  return parse_name<Positions>(text, positions_names(), "position scheme");
}
Result<NormKind> parse_norm(std::string_view text) {
  return parse_name<NormKind>(text, norm_names(), "norm");
}
Result<Activation> parse_activation(std::string_view text) {
  return parse_name<Activation>(text, activation_names(), "activation");
}

bool is_gated(Activation activation) {
  return activation == Activation::kSwiglu || activation == Activation::kGeglu;
}

std::int64_t ModelShape::padded_vocab() const {
  if (vocab_pad_to < 1) return vocab_size;
  return (vocab_size + vocab_pad_to - 1) / vocab_pad_to * vocab_pad_to;
}

bool ModelShape::is_moe_layer(std::int64_t layer_idx) const {
  return num_experts > 0 && layer_idx >= first_dense_layers && moe_every > 0 &&
         (layer_idx - first_dense_layers) % moe_every == moe_every - 1;
}

std::vector<ShapeFault> ModelShape::validate() const {
  std::vector<ShapeFault> faults;
  const auto add = [&](std::string key, std::string what, std::string rule) {
    faults.push_back({std::move(key), std::move(what), std::move(rule)});
  };
  // An upper bound on each size keeps every product below inside 64 bits.
  const auto in_range = [&](const char* key, std::int64_t value, std::int64_t low,
                            std::int64_t high) {
    if (value < low || value > high) {
      add(key, fmt::format("{} = {}", key, value), fmt::format("{} to {}", low, high));
      return false;
    }
    return true;
  };
  constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
  in_range("num_layers", num_layers, 1, 1 << 16);
  in_range("hidden", hidden, 1, kMaxWidth);
  in_range("max_positions", max_positions, 1, std::int64_t{1} << 32);
  in_range("vocab_size", vocab_size, 1, std::int64_t{1} << 31);
  in_range("vocab_pad_to", vocab_pad_to, 1, 1 << 20);
  const bool heads = in_range("num_heads", num_heads, 1, 1 << 16);
  const bool heads_kv = in_range("num_heads_kv", num_heads_kv, 1, 1 << 16);
  const bool dim = in_range("head_dim", head_dim, 1, 1 << 16);
  if (heads && heads_kv && num_heads % num_heads_kv != 0) {
    add("num_heads_kv",
        fmt::format("num_heads = {} is not a multiple of num_heads_kv = {}", num_heads,
                    num_heads_kv),
        "num_heads_kv divides num_heads");
  }
  if (dim && positions == Positions::kRope && head_dim % 2 != 0) {
    add("head_dim", fmt::format("head_dim = {} is odd", head_dim),
        "rope turns pairs: head_dim is even");
  }
  if (!(rope_theta > 0) || !std::isfinite(rope_theta)) {
    add("rope_theta", fmt::format("rope_theta = {}", rope_theta), "a positive number");
  }
  for (const std::string& rule : rope_scaling.validate()) {
    add("rope_scaling", fmt::format("rope_scaling.type = \"{}\"", to_string(rope_scaling.kind)),
        rule);
  }
  if (!(norm_eps > 0) || norm_eps >= 1) {
    add("norm_eps", fmt::format("norm_eps = {}", norm_eps), "between 0 and 1, both excluded");
  }
  if (!(init_std > 0) || init_std > 10) {
    add("init_std", fmt::format("init_std = {}", init_std), "above 0, at most 10");
  }
  const bool all_moe = num_experts > 0 && first_dense_layers == 0 && moe_every == 1;
  if (!all_moe) in_range("ffn_hidden", ffn_hidden, 1, kMaxWidth);
  if (num_experts != 0) {
    in_range("num_experts", num_experts, 1, 1 << 16);
    in_range("experts_topk", experts_topk, 1, std::max<std::int64_t>(num_experts, 1));
    in_range("expert_hidden", expert_hidden, 1, kMaxWidth);
    in_range("first_dense_layers", first_dense_layers, 0, num_layers);
    in_range("moe_every", moe_every, 1, std::max<std::int64_t>(num_layers, 1));
    in_range("num_shared_experts", num_shared_experts, 0, 1 << 10);
    if (num_shared_experts > 0)
      in_range("shared_expert_hidden", shared_expert_hidden, 1, kMaxWidth);
  }
  return faults;
}

ModelShape defaults_for(Arch arch) {
  ModelShape shape;
  shape.arch = arch;
  shape.name = to_string(arch);
  if (arch == Arch::kGpt2) {
    shape.positions = Positions::kLearned;
    shape.norm = NormKind::kLayer;
    shape.activation = Activation::kGeluTanh;
    shape.linear_bias = true;
    shape.qkv_bias = true;
    shape.tie_embeddings = true;
  } else if (arch == Arch::kQwen2) {
    shape.qkv_bias = true;
    shape.norm_eps = 1e-6;
    shape.rope_theta = 1e6;
  } else if (arch == Arch::kQwen3) {
    shape.qk_norm = true;
    shape.norm_eps = 1e-6;
    shape.rope_theta = 1e6;
  } else if (arch == Arch::kMixtral) {
    shape.rope_theta = 1e6;
  }
  return shape;
}

void derive_sizes(ModelShape& shape) {
  if (shape.num_heads_kv == 0) shape.num_heads_kv = shape.num_heads;
  if (shape.head_dim == 0 && shape.num_heads > 0 && shape.hidden % shape.num_heads == 0) {
    shape.head_dim = shape.hidden / shape.num_heads;
  }
  if (shape.ffn_hidden == 0) {
    shape.ffn_hidden =
        is_gated(shape.activation) ? (8 * shape.hidden / 3 + 31) / 32 * 32 : 4 * shape.hidden;
  }
}

}  // namespace sx
