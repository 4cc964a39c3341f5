#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/data/token_source.h"

namespace sx {

/// Whether a data path is a text to be encoded on the fly: an existing file that is no part of a
/// `.bin/.idx` pair.
bool is_text_path(const std::string& path);

/// Tokens of a text file, in memory: for evaluation and small trials; larger texts are packed once
/// (`tokenize pack`). JSON lines (`.jsonl`, also `.gz`, `.zst`) give a document per record with a
/// "text", any other file is one document.
/// `encode`: text to ids, empty = bytes; `eod_id` ends each document, < 0 = none.
/// Errors: kNotFound, kIo; kCorrupt for JSON lines that break off or hold a record without text.
Result<std::shared_ptr<const TokenSource>> read_text_source(
    const std::string& path,
    const std::function<std::vector<std::int32_t>(std::string_view)>& encode, std::int32_t eod_id);

}  // namespace sx
