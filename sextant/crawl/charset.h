#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/crawl/verdict.h"

namespace sx {

/// How the encoding of a page is chosen.
struct CharsetOptions {
  /// Sources in order of trust, of "bom", "http", "meta" (HTML only; the first 64 KiB), "utf8" (the
  /// bytes are valid UTF-8), "detect" (text/charset_detector.h).
  std::vector<std::string> order{"bom", "http", "meta", "detect"};
  bool extra = false;  ///< detection may also name encodings outside the web's standard
};

/// Which encoding a page was read with, and why.
struct DecodedPage {
  std::string text;            ///< UTF-8, no byte order mark
  std::string encoding;        ///< name of the encoding used
  std::string declared;        ///< label as written in HTTP or the page; empty when there is none
  std::string source;          ///< "bom", "http", "meta", "utf8", "ascii" (no other byte), "detect"
  std::uint64_t replaced = 0;  ///< U+FFFD put in
};

/// Bytes to text by the first source of `options.order` that names an encoding, checked on the
/// whole page: when the bytes are wrong in it, valid UTF-8 wins; with up to 0.1 % of wrong bytes
/// (or three) the page is kept and they are replaced and counted; beyond that the detected encoding
/// is taken if nothing is wrong in it, else the page is dropped as decode.failed with the
/// encoding's name. What no source names is read as UTF-8 when valid. Mostly control bytes:
/// decode.binary. `host` is the page's host name, for ties of the detection.
Verdict decode_page(std::string_view bytes, std::string_view http_content_type, bool is_html,
                    const CharsetOptions& options, std::string_view host, DecodedPage& out);

}  // namespace sx
