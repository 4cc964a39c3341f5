// The one table of names. Source: the state dicts of huggingface/transformers
// (src/transformers/models/{gpt2,llama,qwen2,qwen3}/modeling_*.py) and its Conv1D, whose weight is
// [in, out].
#include "sextant/hf/hf_names.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/shape/inventory.h"

namespace sx {
namespace {

/// How a matrix lies in the tensor: as ours, as [in, out], or as part q, k or v of the outputs of
/// one [in, out] tensor.
enum class Place { kSame, kTurned, kPartQ, kPartK, kPartV };

struct NameRow {
  std::string_view ours;  ///< without ".weight" or ".bias"; {} is the layer
  std::string_view gpt2;  ///< empty = the family has no such tensor
  Place gpt2_place;
  std::string_view llama;  ///< also Mistral, Qwen2, Qwen3; always Place::kSame
};

constexpr auto kNames = std::to_array<NameRow>({
    {"tok_embeddings", "wte", Place::kSame, "embed_tokens"},
    {"pos_embeddings", "wpe", Place::kSame, ""},
    {"layers.{}.attention_norm", "h.{}.ln_1", Place::kSame, "layers.{}.input_layernorm"},
    {"layers.{}.attention.wq", "h.{}.attn.c_attn", Place::kPartQ, "layers.{}.self_attn.q_proj"},
    {"layers.{}.attention.wk", "h.{}.attn.c_attn", Place::kPartK, "layers.{}.self_attn.k_proj"},
    {"layers.{}.attention.wv", "h.{}.attn.c_attn", Place::kPartV, "layers.{}.self_attn.v_proj"},
    {"layers.{}.attention.wo", "h.{}.attn.c_proj", Place::kTurned, "layers.{}.self_attn.o_proj"},
    {"layers.{}.attention.q_norm", "", Place::kSame, "layers.{}.self_attn.q_norm"},
    {"layers.{}.attention.k_norm", "", Place::kSame, "layers.{}.self_attn.k_norm"},
    {"layers.{}.ffn_norm", "h.{}.ln_2", Place::kSame, "layers.{}.post_attention_layernorm"},
    {"layers.{}.feed_forward.gate", "", Place::kSame, "layers.{}.mlp.gate_proj"},
    {"layers.{}.feed_forward.up", "h.{}.mlp.c_fc", Place::kTurned, "layers.{}.mlp.up_proj"},
    {"layers.{}.feed_forward.down", "h.{}.mlp.c_proj", Place::kTurned, "layers.{}.mlp.down_proj"},
    {"norm", "ln_f", Place::kSame, "norm"},
    {"output", "lm_head", Place::kSame, "lm_head"},
});

bool is_gpt2(const ModelShape& shape) { return shape.positions == Positions::kLearned; }

std::string with_layer(std::string_view pattern, std::int64_t layer) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + 2));
}

const NameRow& row_of(std::string_view stem, std::int64_t layer) {
  for (const NameRow& row : kNames) {
    if (with_layer(row.ours, layer) == stem) return row;
  }
  SX_CHECK(false, "parameter {} has no name in Hugging Face's models", stem);
}

HfParam describe(const ParamInfo& info, const ModelShape& shape) {
  const std::size_t dot = info.name.rfind('.');
  const std::string stem = info.name.substr(0, dot), kind = info.name.substr(dot);
  const NameRow& row = row_of(stem, info.layer_idx);
  const std::string_view theirs = is_gpt2(shape) ? row.gpt2 : row.llama;
  SX_CHECK(!theirs.empty(), "parameter {} has no name in Hugging Face's {}", info.name,
           is_gpt2(shape) ? "gpt2" : "llama");
  const Place place = is_gpt2(shape) ? row.gpt2_place : Place::kSame;
  const bool vocabulary = info.role == ParamRole::kEmbed || info.role == ParamRole::kHead;
  const bool vector = info.global_shape.size() == 1;

  HfParam param;
  param.name = info.name;
  param.shape = info.global_shape;
  param.rows = vocabulary ? shape.vocab_size : info.global_shape[0];
  param.has_prefix = theirs != "lm_head";
  param.tensor = fmt::format("{}{}{}", param.has_prefix ? hf_prefix(shape) : "",
                             with_layer(theirs, info.layer_idx), kind);
  param.transposed = place != Place::kSame && !vector;
  std::int64_t outputs = param.rows;
  if (place == Place::kPartQ || place == Place::kPartK || place == Place::kPartV) {
    const std::int64_t q = shape.num_heads * shape.head_dim;
    const std::int64_t kv = shape.num_heads_kv * shape.head_dim;
    outputs = q + 2 * kv;
    param.first = place == Place::kPartQ ? 0 : place == Place::kPartK ? q : q + kv;
  }
  param.tensor_shape = vector             ? std::vector<std::int64_t>{outputs}
                       : param.transposed ? std::vector<std::int64_t>{param.shape[1], outputs}
                                          : std::vector<std::int64_t>{outputs, param.shape[1]};
  return param;
}

}  // namespace

std::int64_t HfParam::num_elements() const { return shape[0] * columns(); }
std::int64_t HfParam::columns() const { return shape.size() == 1 ? 1 : shape[1]; }

std::string_view hf_prefix(const ModelShape& shape) {
  return is_gpt2(shape) ? "transformer." : "model.";
}

std::vector<HfParam> hf_params(const ModelShape& shape) {
  SX_CHECK(shape.num_experts == 0, "shape {} has experts", shape.name);
  std::vector<HfParam> params;
  for (const ParamInfo& info : inventory(shape)) params.push_back(describe(info, shape));
  return params;
}

bool is_hf_buffer(std::string_view tensor) {
  return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias") ||
         tensor.ends_with(".rotary_emb.inv_freq");
}

}  // namespace sx
