#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sx {

/// What to do with a special token's text inside a document.
enum class SpecialHandling {
  kText,   ///< ordinary text: a document cannot forge an end of document (default)
  kAllow,  ///< recognised
  kError,  ///< any occurrence is an error
};
/// What to do with bytes outside well-formed UTF-8 (Unicode standard, table 3-7).
enum class InvalidHandling {
  kBytes,    ///< kept: each is one character of class "other"; decode gives it back (default)
  kReplace,  ///< each maximal ill-formed part becomes U+FFFD
  kError,    ///< an error that names the first offset
};
const char* to_string(SpecialHandling policy);
const char* to_string(InvalidHandling policy);
std::optional<SpecialHandling> parse_special_handling(std::string_view name);
std::optional<InvalidHandling> parse_invalid_handling(std::string_view name);

struct EncodeOptions {
  SpecialHandling special = SpecialHandling::kText;
  /// With kAllow: texts that are recognised; empty = all.
  std::vector<std::string> allowed;
  InvalidHandling invalid = InvalidHandling::kBytes;
  /// Put around each text what the file's post-processor names (tokenizer.json), or the begin token
  /// (SentencePiece). Rank vocabularies have nothing to put.
  bool with_template = false;
};

struct EncodeStats {
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t invalid_bytes = 0;  ///< bytes outside well-formed UTF-8
};

}  // namespace sx
