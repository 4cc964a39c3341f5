#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sx {

/// What a guess may use beside the bytes.
struct DetectOptions {
  bool extra = false;        ///< also the encodings of is_extra_encoding()
  std::string_view tld;      ///< last label of the page's host ("ru"): breaks near ties
  bool legacy_only = false;  ///< the bytes are known not to be UTF-8
};

struct CharsetGuess {
  std::string_view encoding;  ///< lives as long as the program
  std::string_view language;  ///< "ru", the language whose letters fit best; "" for Unicode forms
  double confidence = 0;      ///< 0 to 1: distance to the next encoding that gives another text
  double nats_per_byte = 0;   ///< cost of a byte beyond ASCII; below about 5 for real text
};

/// Names the encoding of undeclared text from its whole length: Unicode forms by their patterns,
/// escape encodings by their sequences, the others by how likely the letters (pairs of letters of
/// 34 alphabet languages, characters of Chinese, Japanese and Korean) become under each encoding.
/// Nothing when the bytes are ASCII only or nothing decodes them.
///
/// Cost: one count of byte pairs and one decoding for each of six multi-byte encodings; linear.
/// Data: gen/charset_model.inc, made by tools/gen_charset_model.py from sentences of lingua-rs.
std::optional<CharsetGuess> detect_charset(std::string_view bytes,
                                           const DetectOptions& options = {});

}  // namespace sx
