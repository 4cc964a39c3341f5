#include <algorithm>
#include <unordered_set>

#include "sextant/base/hash.h"
#include "sextant/crawl/filters/rules.h"
#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

constexpr std::size_t kShortLine = 30;

bool ends_in_terminal_mark(std::string_view line) {
  std::size_t last = line.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(line[last]) & 0xC0) == 0x80) --last;
  return is_terminal_punctuation(next_code_point(line, last));
}

void measure_lines(const PolicyText& page, Attributes& out) {
  double lines = 0;
  double punctuated = 0;
  double short_lines = 0;
  double duplicate_chars = 0;
  std::unordered_set<std::uint64_t> seen;
  for (const std::string_view line : split_newlines(page.text)) {
    if (strip(line).empty()) continue;
    const std::size_t length = count_code_points(line);
    lines += 1;
    punctuated += ends_in_terminal_mark(line) ? 1 : 0;
    short_lines += length <= kShortLine ? 1 : 0;
    if (!seen.insert(xxh3_64(line)).second) duplicate_chars += static_cast<double>(length);
  }
  const auto newlines = static_cast<double>(std::count(page.text.begin(), page.text.end(), '\n'));
  out.set("lines", lines);
  out.set("punctuated_lines", punctuated);
  out.set("short_lines", short_lines);
  out.set("duplicate_line_chars", duplicate_chars);
  out.set("line_chars", static_cast<double>(count_code_points(page.text)) - newlines);
  out.set("newlines", newlines);
}

}  // namespace

void measure_fineweb(const PolicyText& page, Attributes& out) {
  measure_lines(page, out);
  out.set("words", static_cast<double>(split_spacy_english(page.text).size()));
}

void measure_fineweb_any_script(const PolicyText& page, Attributes& out) {
  measure_lines(page, out);
  out.set("words", static_cast<double>(split_any_script(page.text).size()));
}

}  // namespace sx
