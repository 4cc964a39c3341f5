#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sx {

/// Facts about characters: Unicode 15.0, by utf8proc.

/// Broad kinds of general categories.
enum class CharKind : std::uint8_t {
  kLetter,       ///< L*
  kMark,         ///< M*
  kDigit,        ///< Nd
  kOtherNumber,  ///< Nl, No
  kPunctuation,  ///< P*
  kSymbol,       ///< S*
  kSeparator,    ///< Z*
  kOther         ///< C*: controls, unassigned
};
CharKind char_kind(char32_t c);

inline bool is_letter(char32_t c) { return char_kind(c) == CharKind::kLetter; }
inline bool is_letter_or_mark(char32_t c) {
  const CharKind kind = char_kind(c);
  return kind == CharKind::kLetter || kind == CharKind::kMark;
}
/// Letters and numbers of all kinds: what Python's str.isalnum() accepts, but for a few numerals
/// outside N*.
inline bool is_alnum(char32_t c) {
  const CharKind kind = char_kind(c);
  return kind == CharKind::kLetter || kind == CharKind::kDigit || kind == CharKind::kOtherNumber;
}
bool is_lower(char32_t c);              ///< Ll
bool is_upper(char32_t c);              ///< Lu
char32_t lower_code_point(char32_t c);  ///< simple lower-case mapping
/// White_Space, and U+001C to U+001F: where Python's str.split() and strip() cut.
bool is_space(char32_t c);

/// The code point at `pos`, which moves behind it. Bytes that are no UTF-8 give U+FFFD one by one.
/// Requires: pos < text.size().
inline char32_t next_code_point(std::string_view text, std::size_t& pos) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t lead = at(pos);
  if (lead < 0x80) {
    ++pos;
    return lead;
  }
  const std::size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || text.size() - pos < need) {
    ++pos;
    return 0xFFFD;
  }
  char32_t c = lead & (0xFFu >> (need + 1));
  for (std::size_t i = 1; i < need; ++i) {
    if ((at(pos + i) & 0xC0) != 0x80) {
      ++pos;
      return 0xFFFD;
    }
    c = c << 6 | (at(pos + i) & 0x3F);
  }
  pos += need;
  return c;
}

/// Number of code points of valid UTF-8.
std::size_t count_code_points(std::string_view text);

/// Every character in lower case, by simple mappings; U+0130 becomes "i" + U+0307 as in Python.
std::string lower_text(std::string_view text);
/// Canonical decomposition with all nonspacing marks (Mn) left out.
std::string strip_accents(std::string_view text);

/// `text` without what is_space() accepts at its ends.
std::string_view strip(std::string_view text);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace sx
