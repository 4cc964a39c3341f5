#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/crawl/verdict.h"

namespace sx {

/// Which encoding a page was read with, and why.
struct DecodedPage {
  std::string text;      ///< UTF-8, no byte order mark
  std::string encoding;  ///< name of the encoding used
  std::string declared;  ///< label as written in HTTP or the page; empty when there is none
  std::string source;    ///< "bom", "http", "meta", "utf8" (undeclared, but valid UTF-8), "ascii"
  std::uint64_t replaced = 0;  ///< U+FFFD put in
};

/// Bytes to text. Order: byte order mark, HTTP header, meta prescan (HTML only; 64 KiB), then valid
/// UTF-8. UTF-8 and windows-1252 are decoded. A page in another declared encoding is kept when its
/// bytes are ASCII only; else it is dropped as decode.failed with the encoding's name: nothing is
/// guessed. Declared UTF-8 with more than 0.1 % invalid bytes is dropped as decode.failed too;
/// fewer are replaced and counted. Mostly control bytes: decode.binary.
Verdict decode_page(std::string_view bytes, std::string_view http_content_type, bool is_html,
                    DecodedPage& out);

}  // namespace sx
