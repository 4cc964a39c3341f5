#include "sextant/crawl/extract.h"

#include <algorithm>

#include <fmt/format.h>

#include "sextant/crawl/extract/main_content.h"
#include "sextant/text/layout_text.h"

namespace sx {

namespace {

/// Characters that must not stand in a document's text.
void drop_nul(std::string& text) {
  text.erase(std::remove(text.begin(), text.end(), '\0'), text.end());
}

}  // namespace

Verdict extract_html(const ParsedPage& page, Extraction& out) {
  out.text = layout_text(page.document);
  out.way = "layout";
  drop_nul(out.text);
  out.title = page_title(page.document);
  out.html_lang = page_language(page.document);
  out.truncated = page.end != HtmlEnd::kComplete;
  if (out.text.empty()) return Verdict::drop(Reason::kExtractEmpty);
  return Verdict::keep();
}

Verdict extract_main(const ParsedPage& page, std::string_view url, double min_confidence,
                     Extraction& out) {
  MainContent content = main_content(page.document, url, ContentModel::standard());
  out.text = std::move(content.text);
  drop_nul(out.text);
  out.way = to_string(content.way);
  out.confidence = content.confidence;
  out.title = page_title(page.document);
  out.html_lang = page_language(page.document);
  out.truncated = page.end != HtmlEnd::kComplete;
  if (out.text.empty()) return Verdict::drop(Reason::kExtractEmpty);
  if (out.confidence < min_confidence)
    return Verdict::drop(Reason::kExtractConfidence, fmt::format("{:.3f}", out.confidence));
  return Verdict::keep();
}

Verdict extract_plain(std::string_view utf8, Extraction& out) {
  const auto cut_blanks = [&] {
    while (!out.text.empty() && (out.text.back() == ' ' || out.text.back() == '\t'))
      out.text.pop_back();
  };
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const char c = utf8[i];
    if (c == '\r' || c == '\n') {
      cut_blanks();
      if (c == '\r' && i + 1 < utf8.size() && utf8[i + 1] == '\n') ++i;
      if (!out.text.empty()) out.text += '\n';
    } else if (c != '\0') {
      out.text += c;
    }
  }
  while (!out.text.empty() &&
         (out.text.back() == '\n' || out.text.back() == ' ' || out.text.back() == '\t'))
    out.text.pop_back();
  if (out.text.empty()) return Verdict::drop(Reason::kExtractEmpty);
  return Verdict::keep();
}

std::string primary_language(std::string_view tag) {
  const std::string_view subtag = tag.substr(0, tag.find_first_of("-_"));
  if (subtag.size() < 2 || subtag.size() > 8) return "und";
  std::string out;
  for (const char c : subtag) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (lower < 'a' || lower > 'z') return "und";
    out += lower;
  }
  return out;
}

}  // namespace sx
