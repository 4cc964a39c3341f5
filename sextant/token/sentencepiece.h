#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/token/token_model.h"

namespace sx {

/// SentencePiece models through libsentencepiece, which defines the format and does the work. Bytes
/// that are not UTF-8 become U+FFFD in the library, whatever EncodeOptions::invalid keeps.
/// Errors:  kNotFound, kIo; kLimit above 64 MiB; kCorrupt for what the library does not accept.
Result<std::shared_ptr<const TokenModel>> load_sentencepiece(const std::filesystem::path& path);
/// The same from memory; `source` is named in errors.
Result<std::shared_ptr<const TokenModel>> parse_sentencepiece(std::string_view bytes,
                                                              const std::string& source);

}  // namespace sx
