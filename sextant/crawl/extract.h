#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/crawl/verdict.h"
#include "sextant/text/html_parser.h"

namespace sx {

/// What a page gives.
struct Extraction {
  std::string text;  ///< layout text, "\n" line ends, no U+0000
  std::string title;
  std::string html_lang;
  std::string way = "plain";  ///< "layout", "plain", or to_string(ContentWay)
  double confidence = 1;      ///< of main content, see MainContent
  bool truncated = false;     ///< a budget of the parser cut the page
};

/// The tree of a page into text. Verdict: kExtractEmpty when nothing visible is left.
Verdict extract_html(const ParsedPage& page, Extraction& out);
/// The main content of the tree (extract/main_content.h). Verdict: kExtractEmpty,
/// kExtractConfidence below `min_confidence`.
Verdict extract_main(const ParsedPage& page, std::string_view url, double min_confidence,
                     Extraction& out);
/// Plain text: line ends become "\n", U+0000 and white space at line ends go.
Verdict extract_plain(std::string_view utf8, Extraction& out);

/// "de" of "de-AT", lower case; "und" when there is no well-formed primary subtag (2 to 8 letters).
/// Source:  BCP 47 (RFC 5646), 2.1.
std::string primary_language(std::string_view tag);

}  // namespace sx
