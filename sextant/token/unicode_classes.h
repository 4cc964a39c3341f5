#pragma once

#include <cstdint>

namespace sx {

/// Classes of characters that split rules speak of, as bits. From general categories of the Unicode
/// version below.
namespace unicode_class {
constexpr std::uint8_t kLetter = 1;        ///< L*
constexpr std::uint8_t kNumber = 2;        ///< Nd, Nl, No
constexpr std::uint8_t kSpace = 4;         ///< White_Space
constexpr std::uint8_t kUpper = 8;         ///< Lu, Lt
constexpr std::uint8_t kLower = 16;        ///< Ll
constexpr std::uint8_t kOtherLetter = 32;  ///< Lm, Lo
constexpr std::uint8_t kMark = 64;         ///< M*
constexpr std::uint8_t kNewline = 128;     ///< CR or LF
}  // namespace unicode_class

namespace detail {
// Two stages: which block of 128, and the bits in it.
extern const std::uint16_t kUnicodeIndex[8704];
extern const std::uint8_t kUnicodeBlocks[28544];
}  // namespace detail

/// Class bits of a code point <= 0x10FFFF; 0 for what is none of them (punctuation, symbols,
/// unassigned).
inline std::uint8_t unicode_class_of(std::uint32_t code_point) {
  return detail::kUnicodeBlocks[(std::uint32_t{detail::kUnicodeIndex[code_point >> 7]} << 7) |
                                (code_point & 127)];
}
/// "15.0.0": part of every fingerprint, because another version may split alike text differently.
const char* unicode_version();

}  // namespace sx
