#include "sextant/crawl/document.h"

#include <fmt/format.h>

#include "sextant/text/jsonl_writer.h"

namespace sx {

std::string pii_json(const PiiCounts& counts) {
  std::string out = "{";
  for (std::size_t i = 0; i < kNumPiiKinds; ++i) {
    if (counts[i] == 0) continue;
    out += fmt::format("{}\"{}\":{}", out.size() > 1 ? "," : "", to_string(static_cast<PiiKind>(i)),
                       counts[i]);
  }
  return out + "}";
}

std::string to_json_line(const Document& d, const std::string& dump) {
  std::string out;
  out.reserve(d.text.size() + d.text.size() / 16 + 512);
  const auto field = [&](const char* name, std::string_view value) {
    out += name;
    append_json_string(out, value);
  };
  field("{\"id\":", d.id.hex());
  field(",\"text\":", d.text);
  field(",\"url\":", d.url);
  field(",\"date\":", d.date);
  field(",\"dump\":", dump);
  field(",\"language\":", d.language);
  field(",\"language_score\":null,\"source\":{\"file\":", d.source_file);
  out += fmt::format(",\"offset\":{},\"bytes\":{}}}", d.source_offset, d.source_bytes);
  const DocumentMetadata& m = d.metadata;
  field(",\"metadata\":{\"title\":", m.title);
  field(",\"html_lang\":", m.html_lang);
  field(",\"charset\":", m.charset);
  field(",\"charset_declared\":", m.charset_declared);
  field(",\"charset_source\":", m.charset_source);
  field(",\"mime\":", m.mime);
  out += fmt::format(
      ",\"replaced\":{},\"http_status\":{},\"truncated\":{},\"payload_bytes\":{},\"edits\":{}",
      m.replaced, m.http_status, m.truncated, m.payload_bytes, m.edits);
  field(",\"extraction\":", m.extraction);
  out += fmt::format(",\"confidence\":{:.3f},\"pii\":{}}}}}", m.confidence, pii_json(m.pii));
  return out;
}

}  // namespace sx
