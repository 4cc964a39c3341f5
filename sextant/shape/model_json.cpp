#include "sextant/shape/model_json.h"

namespace sx {

nlohmann::ordered_json to_json(const ModelShape& shape) {
  return {{"name", shape.name},
          {"arch", to_string(shape.arch)},
          {"num_layers", shape.num_layers},
          {"hidden", shape.hidden},
          {"ffn_hidden", shape.ffn_hidden},
          {"num_heads", shape.num_heads},
          {"num_heads_kv", shape.num_heads_kv},
          {"head_dim", shape.head_dim},
          {"vocab_size", shape.vocab_size},
          {"vocab_pad_to", shape.vocab_pad_to},
          {"max_positions", shape.max_positions},
          {"positions", to_string(shape.positions)},
          {"rope_theta", shape.rope_theta},
          {"rope_scaling",
           {{"type", to_string(shape.rope_scaling.kind)},
            {"factor", shape.rope_scaling.factor},
            {"low_freq_factor", shape.rope_scaling.low_freq_factor},
            {"high_freq_factor", shape.rope_scaling.high_freq_factor},
            {"original_max_positions", shape.rope_scaling.original_max_positions}}},
          {"norm", to_string(shape.norm)},
          {"norm_eps", shape.norm_eps},
          {"activation", to_string(shape.activation)},
          {"linear_bias", shape.linear_bias},
          {"qkv_bias", shape.qkv_bias},
          {"qk_norm", shape.qk_norm},
          {"tie_embeddings", shape.tie_embeddings},
          {"init_std", shape.init_std}};
}

Result<ModelShape> model_shape_from_json(const nlohmann::ordered_json& json) {
  try {
    ModelShape shape;
    const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
    const auto count = [&](const char* key) { return json.at(key).get<std::int64_t>(); };
    shape.name = text("name");
    SX_TRY(shape.arch, parse_arch(text("arch")));
    shape.num_layers = count("num_layers");
    shape.hidden = count("hidden");
    shape.ffn_hidden = count("ffn_hidden");
    shape.num_heads = count("num_heads");
    shape.num_heads_kv = count("num_heads_kv");
    shape.head_dim = count("head_dim");
    shape.vocab_size = count("vocab_size");
    shape.vocab_pad_to = count("vocab_pad_to");
    shape.max_positions = count("max_positions");
    SX_TRY(shape.positions, parse_positions(text("positions")));
    shape.rope_theta = json.at("rope_theta").get<double>();
    if (const auto at = json.find("rope_scaling"); at != json.end()) {
      SX_TRY(shape.rope_scaling.kind, parse_rope_scaling(at->at("type").get<std::string>()));
      shape.rope_scaling.factor = at->at("factor").get<double>();
      shape.rope_scaling.low_freq_factor = at->at("low_freq_factor").get<double>();
      shape.rope_scaling.high_freq_factor = at->at("high_freq_factor").get<double>();
      shape.rope_scaling.original_max_positions =
          at->at("original_max_positions").get<std::int64_t>();
    }
    SX_TRY(shape.norm, parse_norm(text("norm")));
    shape.norm_eps = json.at("norm_eps").get<double>();
    SX_TRY(shape.activation, parse_activation(text("activation")));
    shape.linear_bias = json.at("linear_bias").get<bool>();
    shape.qkv_bias = json.at("qkv_bias").get<bool>();
    shape.qk_norm = json.at("qk_norm").get<bool>();
    shape.tie_embeddings = json.at("tie_embeddings").get<bool>();
    shape.init_std = json.at("init_std").get<double>();
    if (const auto faults = shape.validate(); !faults.empty()) {
      return Error{ErrorKind::kCorrupt, faults.front().what, "model.json"};
    }
    return shape;
  } catch (const nlohmann::json::exception& e) {
    return Error{ErrorKind::kCorrupt, e.what(), "model.json"};
  }
}

}  // namespace sx
