#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// The `config.json` of a Hugging Face folder.
struct HfConfig {
  ModelShape shape;
  std::string dtype;              ///< "float32", "bfloat16", ...; empty when the file does not say
  nlohmann::ordered_json fields;  ///< the file as it is
};

/// Reads `config.json` as transformers writes it, old spelling (rope_theta with rope_scaling,
/// torch_dtype) and new (rope_parameters, dtype): GPT-2, Llama and Mistral without a window, Qwen2,
/// Qwen3. Every field is known: one that says how the model computes and asks for something else
/// than is built here, or that is not known at all, is an error.
///
/// Errors:  kCorrupt (not JSON, a field of the wrong type or missing), kUnsupported naming the
///          field, kInvalid (sizes that fit no model); all with "config.json: FIELD".
Result<HfConfig> parse_hf_config(std::string_view text);

/// `folder`/config.json, or the file itself. Errors: as above with the path, kNotFound.
Result<HfConfig> read_hf_config(const std::filesystem::path& folder);

/// A config.json for `shape`, in the spelling every version of transformers reads. `base`: fields
/// to keep, those of the model the weights came from (ids of special tokens, for example), or null.
/// Errors:  kUnsupported for a shape that no architecture of Hugging Face's has.
Result<nlohmann::ordered_json> format_hf_config(const ModelShape& shape, const std::string& dtype,
                                                const nlohmann::ordered_json& base = nullptr);

}  // namespace sx
