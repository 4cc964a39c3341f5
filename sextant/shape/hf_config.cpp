// Fields of config.json: source of names and defaults are the configuration classes of
// huggingface/transformers (src/transformers/models/{gpt2,llama,mistral,qwen2,qwen3}).
#include "sextant/shape/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "sextant/base/fs.h"

namespace sx {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kMaxConfigBytes = 16 << 20;

/// Say nothing about what the model computes: ids, texts, how it is trained or generated from.
constexpr auto kHarmlessFields = std::to_array<std::string_view>({
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "max_window_layers",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
});

Error config_error(ErrorKind kind, std::string_view field, const std::string& what) {
  return {kind, fmt::format("config.json: {} {}", field, what), ""};
}

/// The fields of one object, each noted when it is read, so that the ones nobody asked for are
/// known at the end.
class Fields {
 public:
  explicit Fields(const OrderedJson& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  bool has(std::string_view name) {
    seen_.insert(std::string(name));
    const auto at = object_.find(name);
    return at != object_.end() && !at->is_null();
  }

  /// True also for null.
  bool knows(std::string_view name) const { return object_.contains(name); }

  Result<std::int64_t> count(std::string_view name) {
    if (!has(name))
      return config_error(ErrorKind::kCorrupt, prefix_ + std::string(name), "is missing");
    const OrderedJson& value = object_.at(std::string(name));
    if (!value.is_number_integer()) return wrong(name, "a whole number");
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > (std::uint64_t{1} << 62)) {
      return wrong(name, "a whole number below 2^62");
    }
    return value.get<std::int64_t>();
  }
  Result<std::int64_t> count_or(std::string_view name, std::int64_t otherwise) {
    return has(name) ? count(name) : Result<std::int64_t>(otherwise);
  }
  Result<double> number_or(std::string_view name, double otherwise) {
    if (!has(name)) return otherwise;
    const OrderedJson& value = object_.at(std::string(name));
    if (!value.is_number()) return wrong(name, "a number");
    return value.get<double>();
  }
  Result<bool> flag_or(std::string_view name, bool otherwise) {
    if (!has(name)) return otherwise;
    const OrderedJson& value = object_.at(std::string(name));
    if (!value.is_boolean()) return wrong(name, "true or false");
    return value.get<bool>();
  }
  Result<std::string> text_or(std::string_view name, const std::string& otherwise) {
    if (!has(name)) return otherwise;
    const OrderedJson& value = object_.at(std::string(name));
    if (!value.is_string()) return wrong(name, "a text");
    return value.get<std::string>();
  }
  const OrderedJson& at(std::string_view name) const { return object_.at(std::string(name)); }

  /// That a flag has the only value this program computes with.
  Result<void> must_be(std::string_view name, bool value, bool otherwise) {
    SX_TRY(const bool found, flag_or(name, otherwise));
    if (found == value) return {};
    return config_error(ErrorKind::kUnsupported, prefix_ + std::string(name),
                        fmt::format("= {} is not built here", found));
  }

  /// Errors: kUnsupported for the first field that was not asked for and is not `harmless`.
  Result<void> check_all_known() const {
    for (const auto& [name, value] : object_.items()) {
      if (seen_.contains(name)) continue;
      if (prefix_.empty() &&
          std::find(kHarmlessFields.begin(), kHarmlessFields.end(), name) != kHarmlessFields.end())
        continue;
      if (value.is_null()) continue;
      return config_error(ErrorKind::kUnsupported, prefix_ + name, "is not understood");
    }
    return {};
  }

 private:
  Error wrong(std::string_view name, const char* expected) const {
    return config_error(ErrorKind::kCorrupt, prefix_ + std::string(name),
                        fmt::format("is not {}", expected));
  }

  const OrderedJson& object_;
  std::string prefix_;
  std::set<std::string> seen_;
};

Result<Activation> gated_activation(const std::string& word) {
  if (word == "silu" || word == "swish") return Activation::kSwiglu;
  if (word == "gelu") return Activation::kGeglu;
  return config_error(ErrorKind::kUnsupported, "hidden_act",
                      fmt::format("= \"{}\" is not built here", word));
}

Result<Activation> plain_activation(const std::string& word) {
  if (word == "gelu_new" || word == "gelu_pytorch_tanh" || word == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (word == "gelu") return Activation::kGelu;
  if (word == "relu") return Activation::kRelu;
  return config_error(ErrorKind::kUnsupported, "activation_function",
                      fmt::format("= \"{}\" is not built here", word));
}

/// `rope_scaling` (old) or `rope_parameters` (new, with the base inside).
Result<void> read_rope_table(Fields& table, const std::string& prefix, ModelShape& shape) {
  SX_TRY(shape.rope_theta, table.number_or("rope_theta", shape.rope_theta));
  SX_TRY(const std::string old_word, table.text_or("type", "default"));
  SX_TRY(const std::string word, table.text_or("rope_type", old_word));
  RopeScaling& scaling = shape.rope_scaling;
  if (word == "linear" || word == "llama3") {
    scaling.kind = word == "linear" ? RopeScalingKind::kLinear : RopeScalingKind::kLlama3;
    if (!table.has("factor")) {
      return config_error(ErrorKind::kCorrupt, prefix + "factor", "is missing");
    }
    SX_TRY(scaling.factor, table.number_or("factor", 1));
  } else if (word != "default") {
    return config_error(ErrorKind::kUnsupported, prefix + "rope_type",
                        fmt::format("= \"{}\" is not built here", word));
  }
  if (word == "llama3") {
    for (const char* name :
         {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      if (!table.has(name)) return config_error(ErrorKind::kCorrupt, prefix + name, "is missing");
    }
    SX_TRY(scaling.low_freq_factor, table.number_or("low_freq_factor", 1));
    SX_TRY(scaling.high_freq_factor, table.number_or("high_freq_factor", 4));
    SX_TRY(scaling.original_max_positions, table.count("original_max_position_embeddings"));
  }
  SX_TRY(const double part, table.number_or("partial_rotary_factor", 1));
  if (part != 1) {
    return config_error(ErrorKind::kUnsupported, prefix + "partial_rotary_factor",
                        fmt::format("= {} is not built here", part));
  }
  return table.check_all_known();
}

Result<void> read_rope(Fields& fields, ModelShape& shape) {
  SX_TRY(shape.rope_theta, fields.number_or("rope_theta", 10000.0));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    const OrderedJson& table = fields.at(name);
    if (!table.is_object()) return config_error(ErrorKind::kCorrupt, name, "is not an object");
    const std::string prefix = std::string(name) + ".";
    Fields inside(table, prefix);
    SX_TRY_VOID(read_rope_table(inside, prefix, shape));
  }
  return {};
}

/// Windows of attention must be off in every layer.
Result<void> check_full_attention(Fields& fields, const std::string& type) {
  if (type == "qwen2" || type == "qwen3") {
    SX_TRY_VOID(fields.must_be("use_sliding_window", false, false));
    fields.has("sliding_window");  // means nothing without the switch
  } else if (fields.has("sliding_window") ||
             (type == "mistral" && !fields.knows("sliding_window"))) {
    // Left out, it is 4096 for this family.
    return config_error(ErrorKind::kUnsupported, "sliding_window", "is not built here");
  }
  if (!fields.has("layer_types")) return {};
  for (const OrderedJson& type : fields.at("layer_types")) {
    if (type != "full_attention") {
      return config_error(ErrorKind::kUnsupported, "layer_types",
                          fmt::format("holds {}, not built here", type.dump()));
    }
  }
  return {};
}

Result<void> read_gpt2(Fields& fields, ModelShape& shape) {
  SX_TRY(shape.num_layers, fields.count("n_layer"));
  SX_TRY(shape.hidden, fields.count("n_embd"));
  SX_TRY(shape.num_heads, fields.count("n_head"));
  SX_TRY(shape.max_positions, fields.count("n_positions"));
  SX_TRY(shape.ffn_hidden,
         fields.count_or("n_inner", 4 * std::min(shape.hidden, std::int64_t{1} << 32)));
  SX_TRY(const std::string word, fields.text_or("activation_function", "gelu_new"));
  SX_TRY(shape.activation, plain_activation(word));
  SX_TRY(shape.norm_eps, fields.number_or("layer_norm_epsilon", 1e-5));
  SX_TRY(shape.tie_embeddings, fields.flag_or("tie_word_embeddings", true));
  SX_TRY_VOID(fields.must_be("scale_attn_weights", true, true));
  SX_TRY_VOID(fields.must_be("scale_attn_by_inverse_layer_idx", false, false));
  SX_TRY_VOID(fields.must_be("add_cross_attention", false, false));
  // A head for sequences, which a language model does not have.
  for (const char* name : {"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                           "summary_type", "summary_use_proj"}) {
    fields.has(name);
  }
  return {};
}

Result<void> read_llama_kind(Fields& fields, const std::string& type, ModelShape& shape) {
  SX_TRY(shape.num_layers, fields.count("num_hidden_layers"));
  SX_TRY(shape.hidden, fields.count("hidden_size"));
  SX_TRY(shape.ffn_hidden, fields.count("intermediate_size"));
  SX_TRY(shape.num_heads, fields.count("num_attention_heads"));
  SX_TRY(shape.num_heads_kv, fields.count_or("num_key_value_heads", shape.num_heads));
  SX_TRY(shape.max_positions, fields.count("max_position_embeddings"));
  if (type == "qwen3") {
    SX_TRY(shape.head_dim, fields.count_or("head_dim", 128));
  } else {
    SX_TRY(shape.head_dim, fields.count_or("head_dim", 0));
  }
  SX_TRY(const std::string word, fields.text_or("hidden_act", "silu"));
  SX_TRY(shape.activation, gated_activation(word));
  SX_TRY(shape.norm_eps, fields.number_or("rms_norm_eps", 1e-6));
  SX_TRY(shape.tie_embeddings, fields.flag_or("tie_word_embeddings", false));
  SX_TRY_VOID(read_rope(fields, shape));
  SX_TRY_VOID(check_full_attention(fields, type));
  if (type == "llama") {
    SX_TRY(shape.qkv_bias, fields.flag_or("attention_bias", false));
    SX_TRY(shape.linear_bias, fields.flag_or("mlp_bias", false));
    if (shape.qkv_bias != shape.linear_bias) {
      return config_error(ErrorKind::kUnsupported, "attention_bias",
                          fmt::format("= {} with mlp_bias = {} is not built here", shape.qkv_bias,
                                      shape.linear_bias));
    }
  } else if (type == "qwen3") {
    SX_TRY_VOID(fields.must_be("attention_bias", false, false));
  }
  return {};
}

Result<Arch> arch_of(const std::string& type) {
  if (type == "gpt2") return Arch::kGpt2;
  if (type == "llama" || type == "mistral") return Arch::kLlama;
  if (type == "qwen2") return Arch::kQwen2;
  if (type == "qwen3") return Arch::kQwen3;
  return config_error(
      ErrorKind::kUnsupported, "model_type",
      fmt::format("= \"{}\" is not known; known: gpt2 llama mistral qwen2 qwen3", type));
}

Result<HfConfig> read_fields(const OrderedJson& json) {
  Fields fields(json);
  SX_TRY(const std::string type, fields.text_or("model_type", ""));
  HfConfig config;
  SX_TRY(const Arch arch, arch_of(type));
  config.shape = defaults_for(arch);
  config.shape.name = type;
  SX_TRY(config.shape.vocab_size, fields.count("vocab_size"));
  SX_TRY(const std::string old_dtype, fields.text_or("torch_dtype", ""));
  SX_TRY(config.dtype, fields.text_or("dtype", old_dtype));
  SX_TRY(config.shape.init_std, fields.number_or("initializer_range", 0.02));
  SX_TRY_VOID(fields.must_be("is_encoder_decoder", false, false));
  SX_TRY_VOID(fields.must_be("tie_encoder_decoder", false, false));
  if (fields.has("pruned_heads") && !fields.at("pruned_heads").empty()) {
    return config_error(ErrorKind::kUnsupported, "pruned_heads", "is not built here");
  }
  if (arch == Arch::kGpt2) {
    SX_TRY_VOID(read_gpt2(fields, config.shape));
  } else {
    SX_TRY_VOID(read_llama_kind(fields, type, config.shape));
  }
  SX_TRY_VOID(fields.check_all_known());
  derive_sizes(config.shape);
  if (const auto faults = config.shape.validate(); !faults.empty()) {
    return config_error(
        ErrorKind::kInvalid, faults.front().key,
        fmt::format("does not fit: {} ({})", faults.front().what, faults.front().rule));
  }
  return config;
}

/// Which family of Hugging Face's a shape belongs to; empty = none.
std::string model_type_of(const ModelShape& s) {
  if (s.num_experts > 0) return "";
  const bool full_width = s.num_heads * s.head_dim == s.hidden;
  if (s.positions == Positions::kLearned) {
    const bool fits = s.norm == NormKind::kLayer && !is_gated(s.activation) && s.linear_bias &&
                      s.qkv_bias && !s.qk_norm && full_width && s.num_heads_kv == s.num_heads;
    return fits ? "gpt2" : "";
  }
  if (s.positions != Positions::kRope || s.norm != NormKind::kRms || !is_gated(s.activation)) {
    return "";
  }
  if (s.qk_norm) return !s.qkv_bias && !s.linear_bias ? "qwen3" : "";
  if (s.qkv_bias == s.linear_bias) return "llama";
  return s.qkv_bias && full_width ? "qwen2" : "";
}

void write_rope(const ModelShape& s, OrderedJson& json) {
  json.erase("rope_parameters");
  json["rope_theta"] = s.rope_theta;
  const RopeScaling& scaling = s.rope_scaling;
  switch (scaling.kind) {
    case RopeScalingKind::kNone: json["rope_scaling"] = nullptr; break;
    case RopeScalingKind::kLinear:
      json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", scaling.factor}};
      break;
    case RopeScalingKind::kLlama3:
      json["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", scaling.factor},
                              {"low_freq_factor", scaling.low_freq_factor},
                              {"high_freq_factor", scaling.high_freq_factor},
                              {"original_max_position_embeddings", scaling.original_max_positions}};
      break;
  }
}

void write_gpt2(const ModelShape& s, OrderedJson& json) {
  json["n_layer"] = s.num_layers;
  json["n_embd"] = s.hidden;
  json["n_head"] = s.num_heads;
  json["n_positions"] = s.max_positions;
  json["n_inner"] = s.ffn_hidden;
  json["activation_function"] = s.activation == Activation::kGeluTanh ? "gelu_new"
                                : s.activation == Activation::kGelu   ? "gelu"
                                                                      : "relu";
  json["layer_norm_epsilon"] = s.norm_eps;
}

void write_llama_kind(const ModelShape& s, const std::string& type, OrderedJson& json) {
  json["num_hidden_layers"] = s.num_layers;
  json["hidden_size"] = s.hidden;
  json["intermediate_size"] = s.ffn_hidden;
  json["num_attention_heads"] = s.num_heads;
  json["num_key_value_heads"] = s.num_heads_kv;
  if (type != "qwen2") json["head_dim"] = s.head_dim;
  json["max_position_embeddings"] = s.max_positions;
  json["hidden_act"] = s.activation == Activation::kSwiglu ? "silu" : "gelu";
  json["rms_norm_eps"] = s.norm_eps;
  write_rope(s, json);
  if (type == "qwen2" || type == "qwen3") json["use_sliding_window"] = false;
  if (type == "llama" || type == "qwen3") json["attention_bias"] = s.qkv_bias;
  if (type == "llama") json["mlp_bias"] = s.linear_bias;
}

const char* class_of(const std::string& type) {
  if (type == "gpt2") return "GPT2LMHeadModel";
  if (type == "qwen2") return "Qwen2ForCausalLM";
  if (type == "qwen3") return "Qwen3ForCausalLM";
  return type == "mistral" ? "MistralForCausalLM" : "LlamaForCausalLM";
}

}  // namespace

Result<HfConfig> parse_hf_config(std::string_view text) {
  OrderedJson json;
  try {
    json = OrderedJson::parse(text);
  } catch (const nlohmann::json::exception& e) {
    return Error{ErrorKind::kCorrupt, fmt::format("config.json: {}", e.what()), ""};
  }
  if (!json.is_object()) {
    return Error{ErrorKind::kCorrupt, "config.json: not a JSON object", ""};
  }
  SX_TRY(HfConfig config, read_fields(json));
  config.fields = std::move(json);
  return config;
}

Result<HfConfig> read_hf_config(const std::filesystem::path& folder) {
  const fs::path path = fs::is_directory(folder) ? folder / "config.json" : folder;
  SX_TRY(const std::string text, read_file(path, kMaxConfigBytes));
  auto config = parse_hf_config(text);
  if (config.ok()) return config;
  Error error = std::move(config).error();
  error.where = path.string();
  return error;
}

Result<nlohmann::ordered_json> format_hf_config(const ModelShape& shape, const std::string& dtype,
                                                const nlohmann::ordered_json& base) {
  std::string type = model_type_of(shape);
  if (type.empty()) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("model \"{}\" (arch {}) is none of gpt2, llama, qwen2, qwen3: another "
                             "combination of positions, norms, activation and biases",
                             shape.name, to_string(shape.arch)),
                 "model.json"};
  }
  OrderedJson json = OrderedJson::object();
  if (base.is_object()) {
    const auto at = base.find("model_type");
    const std::string was =
        at != base.end() && at->is_string() ? at->get<std::string>() : std::string();
    if (was == "mistral" && type == "llama" && !shape.qkv_bias) type = was;
    if (was == type) json = base;
  }
  json["architectures"] = {class_of(type)};
  json["model_type"] = type;
  json["vocab_size"] = shape.vocab_size;
  type == "gpt2" ? write_gpt2(shape, json) : write_llama_kind(shape, type, json);
  json["tie_word_embeddings"] = shape.tie_embeddings;
  json["initializer_range"] = shape.init_std;
  json.erase("dtype");
  json["torch_dtype"] = dtype;
  return json;
}

}  // namespace sx
