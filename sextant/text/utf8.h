#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sx {

/// True when `bytes` is UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view bytes);

/// What UTF-8 decoding met.
struct Utf8Census {
  std::uint64_t invalid_bytes = 0;  ///< bytes that belong to no valid sequence
  std::uint64_t replacements = 0;   ///< U+FFFD that the standard's decoder gives for them
  std::uint64_t multibyte = 0;      ///< valid sequences of two to four bytes
};
Utf8Census census_utf8(std::string_view bytes);

/// `bytes` with each maximal invalid part replaced by one U+FFFD; their number is added to
/// `replaced`. Source:  WHATWG Encoding Standard, "UTF-8 decoder"; Unicode 15.0, table 3-8.
std::string repair_utf8(std::string_view bytes, std::uint64_t& replaced);

/// Appends one code point; surrogates and numbers above U+10FFFF give U+FFFD.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace sx
