#include "sextant/recipe/model_shape.h"

namespace sx {

ModelShape to_model_shape(const Recipe& recipe, std::int64_t vocab_size) {
  const ModelKeys& model = recipe.model;
  ModelShape shape;
  shape.name = model.preset.empty() ? recipe.run.name : model.preset;
  shape.arch = parse_arch(model.arch).value();  // words were checked by the key table
  shape.num_layers = model.num_layers;
  shape.hidden = model.hidden;
  shape.ffn_hidden = model.ffn_hidden;
  shape.num_heads = model.num_heads;
  shape.num_heads_kv = model.num_heads_kv;
  shape.head_dim = model.head_dim;
  shape.vocab_size = model.vocab_size.value_or(vocab_size);
  shape.vocab_pad_to = model.vocab_pad_to;
  shape.max_positions = model.max_positions;
  shape.positions = parse_positions(model.positions).value();
  shape.rope_theta = model.rope_theta;
  shape.rope_scaling.kind = parse_rope_scaling(model.rope_scaling.type).value();
  shape.rope_scaling.factor = model.rope_scaling.factor;
  shape.rope_scaling.low_freq_factor = model.rope_scaling.low_freq_factor;
  shape.rope_scaling.high_freq_factor = model.rope_scaling.high_freq_factor;
  shape.rope_scaling.original_max_positions = model.rope_scaling.original_max_positions;
  shape.norm = parse_norm(model.norm).value();
  shape.norm_eps = model.norm_eps;
  shape.activation = parse_activation(model.activation).value();
  shape.linear_bias = model.linear_bias;
  shape.qkv_bias = model.qkv_bias;
  shape.qk_norm = model.qk_norm;
  shape.tie_embeddings = model.tie_embeddings;
  shape.init_std = model.init_std;
  return shape;
}

}  // namespace sx
