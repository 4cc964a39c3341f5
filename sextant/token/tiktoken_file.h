#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/vocab.h"

namespace sx {

/// The `.tiktoken` text form of a rank vocabulary: one line `base64(token bytes) SPACE rank` per
/// token, and beside it
/// `<name>.json` with `pat_str` and `special_tokens` (docs/formats/tiktoken.md).

/// Token bytes by rank. Lines may come in any order; ranks must be 0 .. n-1, each once; all 256
/// single bytes present. Errors:  kCorrupt with `source` and the line number.
Result<std::vector<std::string>> parse_tiktoken(std::string_view text, const std::string& source);
/// Lines by rank, each with its newline.
std::string format_tiktoken(const Vocab& vocab);

struct TiktokenSide {
  std::string pattern;
  std::vector<SpecialToken> specials;
};
/// Errors:  kCorrupt (JSON path).
Result<TiktokenSide> parse_tiktoken_side(std::string_view json, const std::string& source);
std::string format_tiktoken_side(const Vocab& vocab);

/// `path` and the JSON beside it. Without a side file the name decides (r50k_base, gpt2,
/// cl100k_base, o200k_base), with the special tokens of that family. Errors:  kNotFound, kIo,
/// kCorrupt, kUnsupported (a pattern that does not compile).
Result<Vocab> read_tiktoken(const std::filesystem::path& path);
/// Writes both files atomically, the JSON first. Errors: kIo.
Result<void> write_tiktoken(const Vocab& vocab, const std::filesystem::path& path);

}  // namespace sx
