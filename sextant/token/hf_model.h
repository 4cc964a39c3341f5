#pragma once

#include <filesystem>
#include <memory>

#include "sextant/base/result.h"
#include "sextant/token/hf_json.h"
#include "sextant/token/token_model.h"

namespace sx {

/// A `tokenizer.json` at work: added tokens, normalisers, pre-tokenizers, BPE, template, decoders,
/// in the order and with the ids of Hugging Face tokenizers. A byte-level file with at most one
/// Split runs on the fast path of rank vocabularies.
///
/// Special added tokens follow EncodeOptions::special; added tokens that are not special are always
/// recognised, as the file asks.
std::shared_ptr<const TokenModel> make_hf_model(HfFile file);
/// Errors: those of read_hf_json.
Result<std::shared_ptr<const TokenModel>> load_hf_model(const std::filesystem::path& path);

}  // namespace sx
