#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sextant/token/unicode_classes.h"

namespace sx {

/// One character of a byte string: a well-formed UTF-8 sequence, or a single byte outside any.
struct ScannedChar {
  std::uint32_t code_point = 0;  ///< of an invalid byte: 0
  std::uint8_t size = 0;         ///< bytes; 0 at the end of the text
  bool valid = true;
};

/// The character at `pos` by the Unicode standard's table 3-7 (no overlongs, no surrogates, at most
/// U+10FFFF).
inline ScannedChar scan_char(std::string_view text, std::size_t pos) {
  if (pos >= text.size()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const std::size_t left = text.size() - pos;
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const auto tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < left && byte(i) >= low && byte(i) <= high;
  };
  if (lead >= 0xC2 && lead <= 0xDF && tail(1)) return {(lead & 31) << 6 | (byte(1) & 63u), 2, true};
  if (lead >= 0xE0 && lead <= 0xEF &&
      tail(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF) && tail(2)) {
    return {(lead & 15) << 12 | (byte(1) & 63u) << 6 | (byte(2) & 63u), 3, true};
  }
  if (lead >= 0xF0 && lead <= 0xF4 &&
      tail(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF) && tail(2) && tail(3)) {
    return {(lead & 7) << 18 | (byte(1) & 63u) << 12 | (byte(2) & 63u) << 6 | (byte(3) & 63u), 4,
            true};
  }
  return {0, 1, false};
}

/// Bytes of the maximal ill-formed part at `pos`, where scan_char found none: the longest start of
/// a well-formed sequence, else one byte. One U+FFFD stands for it.
inline std::size_t ill_formed_size(std::string_view text, std::size_t pos) {
  const unsigned lead = static_cast<unsigned char>(text[pos]);
  if (lead < 0xE0 || lead > 0xF4) return 1;
  const auto byte = [&](std::size_t i) {
    return pos + i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[pos + i]))
                                 : 0u;
  };
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 1;
  if (lead < 0xF0 || byte(2) < 0x80 || byte(2) > 0xBF) return 2;
  return 3;
}

/// Class bits and size of the character at `pos`; size 0 at the end; an invalid byte has class 0.
struct ClassedChar {
  std::uint8_t bits = 0;
  std::uint8_t size = 0;

  bool is(std::uint8_t any_of) const { return (bits & any_of) != 0; }
  /// A character that is neither letter, number nor space.
  bool is_other() const {
    return size != 0 &&
           !is(unicode_class::kLetter | unicode_class::kNumber | unicode_class::kSpace);
  }
};

inline ClassedChar class_at(std::string_view text, std::size_t pos) {
  const ScannedChar c = scan_char(text, pos);
  if (c.size == 0) return {};
  return {c.valid ? unicode_class_of(c.code_point) : std::uint8_t{0}, c.size};
}

/// End of the run of characters from `pos` on that have one of the class bits `any_of`.
inline std::size_t run_end(std::string_view text, std::size_t pos, std::uint8_t any_of) {
  for (ClassedChar c = class_at(text, pos); c.size != 0 && c.is(any_of); c = class_at(text, pos))
    pos += c.size;
  return pos;
}
/// End of the run of characters from `pos` on that are neither letter, number nor space.
inline std::size_t other_run_end(std::string_view text, std::size_t pos) {
  for (ClassedChar c = class_at(text, pos); c.is_other(); c = class_at(text, pos)) pos += c.size;
  return pos;
}

}  // namespace sx
