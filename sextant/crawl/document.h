#pragma once

#include <cstdint>
#include <string>

#include "sextant/base/hash.h"
#include "sextant/crawl/pii.h"

namespace sx {

/// Facts about a document beside its text.
struct DocumentMetadata {
  std::string title;
  std::string html_lang;         ///< lang attribute as written
  std::string charset;           ///< encoding used
  std::string charset_declared;  ///< label as declared; empty = none
  std::string
      charset_source;  ///< "bom", "http", "meta", "utf8" (undeclared, valid), "ascii", "detect"
  std::string mime;    ///< used, lower case
  std::uint64_t replaced = 0;  ///< U+FFFD put in by decoding
  int http_status = 0;         ///< 0 = no HTTP response
  bool truncated = false;      ///< archive or budget cut the page
  std::uint64_t payload_bytes = 0;
  std::string extraction;   ///< "layout", "model", "container", "plain": how the text was found
  double confidence = 1;    ///< expected word F1 of the main content; 1 for all visible text
  PiiCounts pii{};          ///< personal data found, by kind
  std::uint64_t edits = 0;  ///< spans of the extracted text that rules changed
};

/// One page as text.
///
/// Invariants: `text` is valid UTF-8 without U+0000, lines end with "\n". `id` is XXH3-128 of the
/// WARC-Record-ID, or of file name and offset when the record has none.
struct Document {
  Hash128 id;
  std::string url;
  std::string date;  ///< WARC-Date as written
  std::string text;
  std::string language;  ///< primary subtag of html_lang in lower case ("de"), "und" when none:
                         ///< declared, not detected
  std::string source_file;
  std::uint64_t source_offset = 0;  ///< of the record in the stored file
  std::uint64_t source_bytes = 0;   ///< stored length
  DocumentMetadata metadata;
};

/// {"email":2,"ip":1}: kinds that were found.
std::string pii_json(const PiiCounts& counts);

/// One JSON object without line end; keys in fixed order (docs/formats/document_jsonl.md).
std::string to_json_line(const Document& document, const std::string& dump);

}  // namespace sx
