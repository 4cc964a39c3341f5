#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sx {

/// Encodings the standard leaves out for safety, decoded by the C library: "UTF-32LE", "UTF-32BE",
/// "IBM855", "EUC-TW", "Johab", "ISO-2022-KR". No label leads to them (encoding.h); only detection
/// does, where it is asked for.
bool is_extra_encoding(std::string_view encoding);

/// True for every name of the WHATWG Encoding Standard and for the extra ones.
bool can_decode(std::string_view encoding);

struct DecodedText {
  std::string text;            ///< valid UTF-8
  std::uint64_t replaced = 0;  ///< U+FFFD put in for bytes that mean nothing in this encoding
};

/// Bytes of `encoding` as UTF-8. A byte order mark is not looked for. Errors give U+FFFD by the
/// standard's rules; "replacement" gives one U+FFFD for any input but the empty one.
///
/// Requires: can_decode(encoding).
/// Source:   WHATWG Encoding Standard, decoders of 8 to 14, by lexbor's tables; the extra ones by
/// iconv.
DecodedText decode_bytes(std::string_view bytes, std::string_view encoding);

}  // namespace sx
