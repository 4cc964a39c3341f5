// Any bytes as a page: the tree stays inside depth, attributes and memory, and its text is valid
// UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sextant/crawl/extract.h"
#include "sextant/text/html_parser.h"
#include "sextant/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t replaced = 0;
  const std::string html = sx::repair_utf8({reinterpret_cast<const char*>(data), size}, replaced);
  sx::HtmlLimits limits;
  limits.max_depth = 64;
  limits.max_attributes = 16;
  limits.max_nodes = 20000;
  sx::HtmlParser parser;
  const sx::ParsedPage page = parser.parse(html, limits);
  if (page.memory_bytes > limits.memory_per_byte * html.size() + (std::uint64_t{16} << 20))
    std::abort();
  std::size_t depth = 0;
  for (sx::DomNode node = page.document; node;) {
    if (node.attributes().size() > limits.max_attributes) std::abort();
    if (node.first_child()) {
      node = node.first_child();
      // Elements the tree builder adds by itself (tbody, tr) may pass the cap by a few, reopened
      // formatting by 32.
      if (++depth > limits.max_depth + limits.max_formatting + 8) std::abort();
      continue;
    }
    while (node && !node.next()) {
      node = node.parent();
      if (depth > 0) --depth;
    }
    if (node) node = node.next();
  }
  sx::Extraction out;
  sx::extract_html(page, out);
  if (!sx::is_valid_utf8(out.text) || !sx::is_valid_utf8(out.title) ||
      out.text.find('\0') != std::string::npos) {
    std::abort();
  }
  return 0;
}
