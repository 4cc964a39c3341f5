#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/shape/rope_scaling.h"

namespace sx {

enum class Arch { kLlama, kGpt2, kQwen2, kQwen3, kMixtral, kCustom };
enum class Positions { kRope, kLearned, kNone };
enum class NormKind { kRms, kLayer };
enum class Activation { kSwiglu, kGeglu, kGeluTanh, kGelu, kRelu };

const char* to_string(Arch value);
const char* to_string(Positions value);
const char* to_string(NormKind value);
const char* to_string(Activation value);

/// The names `to_string` gives, in order; for messages and key tables.
const std::vector<std::string>& arch_names();
const std::vector<std::string>& positions_names();
const std::vector<std::string>& norm_names();
const std::vector<std::string>& activation_names();

/// Errors: kInvalid, the message lists the known names.
Result<Arch> parse_arch(std::string_view text);
Result<Positions> parse_positions(std::string_view text);
Result<NormKind> parse_norm(std::string_view text);
Result<Activation> parse_activation(std::string_view text);

/// Gated activations have three matrices (gate, up, down), the others two (up, down).
bool is_gated(Activation activation);

/// One thing wrong with a shape: the key of group `model` it is about, and the broken rule.
struct ShapeFault {
  std::string key;   ///< "num_heads", without "model."
  std::string what;  ///< "num_heads = 5 is not a multiple of num_heads_kv = 2"
  std::string rule;  ///< "num_heads_kv divides num_heads"
};

/// What a decoder looks like: the single source for the trainer's modules, parameter counts and
/// flops.
///
/// A plain value. Field names are those of the keys `model.*`. Letters used for sizes elsewhere: L
/// layers, H hidden, F ffn, N heads, G key/value heads, D head dim, V vocabulary, P positions, E
/// experts, k experts per token. Only global sizes: what one rank owns is not the business of a
/// shape.
struct ModelShape {
  std::string name = "custom";
  Arch arch = Arch::kCustom;  ///< chooses defaults only (`defaults_for`); the fields below decide

  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_heads_kv = 0;
  std::int64_t head_dim = 0;        ///< explicit: N*D may differ from H
  std::int64_t vocab_size = 0;      ///< the tokenizer's
  std::int64_t vocab_pad_to = 128;  ///< embedding and head have a multiple of this many rows
  std::int64_t max_positions = 0;

  Positions positions = Positions::kRope;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  NormKind norm = NormKind::kRms;
  double norm_eps = 1e-5;
  Activation activation = Activation::kSwiglu;
  bool linear_bias = false;  ///< bias in o, gate, up, down
  bool qkv_bias = false;     ///< bias in q, k, v
  bool qk_norm = false;      ///< RMS norm of each head's q and k, weight [D]
  bool tie_embeddings = false;
  double init_std = 0.02;

  std::int64_t num_experts = 0;  ///< 0 = dense
  std::int64_t experts_topk = 0;
  std::int64_t expert_hidden = 0;
  std::int64_t num_shared_experts = 0;
  std::int64_t shared_expert_hidden = 0;
  std::int64_t first_dense_layers = 0;
  std::int64_t moe_every = 1;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;

  /// vocab_size rounded up to a multiple of vocab_pad_to; the same for every layout.
  std::int64_t padded_vocab() const;
  bool is_moe_layer(std::int64_t layer_idx) const;
  /// All faults, not only the first; empty when the shape can be built.
  std::vector<ShapeFault> validate() const;
};

/// A shape with the switches of an architecture set and no sizes: llama = rope, RMS norm, SwiGLU,
/// no bias, untied; gpt2 = learned positions, layer norm, tanh GELU, biases, tied head; qwen2 =
/// llama with biases in q, k, v; qwen3 = llama with norms on q and k.
ModelShape defaults_for(Arch arch);

/// Fills what follows from the rest when it is still 0: num_heads_kv = num_heads, head_dim = hidden
/// / num_heads, and ffn_hidden = 4H without a gate, else 8H/3 rounded up to a multiple of 32. Wrong
/// values are left for `validate`.
void derive_sizes(ModelShape& shape);

/// A published or built-in shape by name. Errors: kNotFound, the message lists the names.
/// Sizes and switches only: a preset says nothing of RoPE scaling for contexts longer than the
/// model was first trained with.
Result<ModelShape> shape_preset(std::string_view name);
std::vector<std::string> shape_preset_names();

}  // namespace sx
