#include <algorithm>
#include <array>

#include "sextant/crawl/filters/rules.h"
#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

constexpr std::array<std::string_view, 6> kPolicyPhrases = {"terms of use",   "privacy policy",
                                                            "cookie policy",  "uses cookies",
                                                            "use of cookies", "use cookies"};
constexpr std::size_t kMaxWordLength = 1000;
constexpr std::size_t kMinWordsPerLine = 3;

/// Length of "[123]", "[]", "[edit]" or "[citation needed]" at the start of `text`, else 0.
std::size_t citation_length(std::string_view text) {
  for (const std::string_view fixed : {"[edit]", "[citation needed]"}) {
    if (text.starts_with(fixed)) return fixed.size();
  }
  std::size_t pos = 1;
  while (pos < text.size()) {
    std::size_t next = pos;
    const char32_t c = next_code_point(text, next);
    if (c == ']') return next;
    if (char_kind(c) != CharKind::kDigit) return 0;
    pos = next;
  }
  return 0;
}

std::string without_citations(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t pos = 0; pos < line.size();) {
    const std::size_t length = line[pos] == '[' ? citation_length(line.substr(pos)) : 0;
    if (length > 0)
      pos += length;
    else
      out += line[pos++];
  }
  return out;
}

bool ends_as_sentence(std::string_view line) {
  if (line.empty() || line.ends_with("...")) return false;
  const char last = line.back();
  return last == '.' || last == '?' || last == '!' || last == '"' || last == '\'';
}

/// What becomes of a line.
enum class LineFate { kKept, kLeftOut, kLoremIpsum, kCurly };

LineFate judge_line(std::string_view stripped, bool need_end_mark, std::string& line) {
  const Pieces words = split_words(stripped);
  const bool too_long = std::any_of(words.begin(), words.end(), [](std::string_view word) {
    return count_code_points(word) > kMaxWordLength;
  });
  if (too_long) return LineFate::kLeftOut;
  line = without_citations(stripped);
  if (need_end_mark && !ends_as_sentence(line)) return LineFate::kLeftOut;
  if (words.size() < kMinWordsPerLine) return LineFate::kLeftOut;
  const std::string lower = lower_text(line);
  if (lower.find("lorem ipsum") != std::string::npos) return LineFate::kLoremIpsum;
  if (lower.find("javascript") != std::string::npos) return LineFate::kLeftOut;
  if (line.find('{') != std::string::npos) return LineFate::kCurly;
  const bool policy =
      std::any_of(kPolicyPhrases.begin(), kPolicyPhrases.end(),
                  [&](std::string_view phrase) { return lower.find(phrase) != std::string::npos; });
  return policy ? LineFate::kLeftOut : LineFate::kKept;
}

std::string edit_c4(std::string_view text, bool need_end_mark, Attributes& out,
                    std::uint64_t& edits) {
  std::string kept;
  std::size_t sentences = 0;
  std::size_t lines_kept = 0;
  const Pieces lines = split_lines(text);
  std::string line;
  for (const std::string_view raw : lines) {
    const std::string_view stripped = strip(raw);
    const LineFate fate = judge_line(stripped, need_end_mark, line);
    if (fate == LineFate::kLoremIpsum || fate == LineFate::kCurly) {
      out.set(fate == LineFate::kCurly ? "curly" : "lorem_ipsum", 1);
      return {};
    }
    if (fate == LineFate::kLeftOut) continue;
    edits += line.size() != stripped.size() ? 1 : 0;
    sentences += count_spacy_sentences(line);
    if (lines_kept++ > 0) kept += '\n';
    kept += line;
  }
  edits += lines.size() - lines_kept;
  out.set("lines", static_cast<double>(lines.size()));
  out.set("kept_lines", static_cast<double>(lines_kept));
  out.set("sentences", static_cast<double>(sentences));
  return std::string(strip(kept));
}

}  // namespace

std::string edit_c4_datatrove(const PolicyText& page, Attributes& out, std::uint64_t& edits) {
  return edit_c4(page.text, true, out, edits);
}

std::string edit_c4_fineweb(const PolicyText& page, Attributes& out, std::uint64_t& edits) {
  return edit_c4(page.text, false, out, edits);
}

void measure_c4_dolma(const PolicyText& page, Attributes& out) {
  double no_end = 0;
  double few_words = 0;
  const Pieces lines = split_newlines(page.text);
  for (const std::string_view raw : lines) {
    const std::string lower = lower_text(raw);
    const std::string_view line = strip(lower);
    const bool ends =
        !line.empty() && std::string_view(".?!\"").find(line.back()) != std::string_view::npos;
    no_end += ends ? 0 : 1;
    few_words += split_words(line).size() < kMinWordsPerLine ? 1 : 0;
    if (line.find("lorem ipsum") != std::string_view::npos) out.set("lorem_ipsum", 1);
    if (line.find('{') != std::string_view::npos) out.set("curly", 1);
  }
  out.set("lines", static_cast<double>(lines.size()));
  out.set("lines_without_end", no_end);
  out.set("lines_with_few_words", few_words);
}

void measure_c4_paragraphs(const PolicyText& page, Attributes& out) {
  std::vector<std::size_t> lengths;
  for (const std::string_view line : split_newlines(page.text))
    lengths.push_back(count_code_points(line));
  std::sort(lengths.rbegin(), lengths.rend());
  out.set("lines", static_cast<double>(lengths.size()));
  out.set("third_longest_line", lengths.size() < 3 ? 0 : static_cast<double>(lengths[2]));
}

}  // namespace sx
