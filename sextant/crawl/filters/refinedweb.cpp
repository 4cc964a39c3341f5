#include <algorithm>
#include <array>

#include "sextant/crawl/filters/rules.h"
#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

constexpr double kMaxUpperShare = 0.5;
constexpr double kMaxDigitShare = 0.999999;
constexpr std::size_t kMinWords = 2;
constexpr std::size_t kMaxWordsForPhrases = 10;
constexpr std::array<std::string_view, 11> kCounted = {
    "likes",     "shares",  "comments",  "retweets",  "reposts", "quotes",
    "bookmarks", "upvotes", "downvotes", "downloads", "views"};

double count_fasttext_alnum(std::string_view text) {
  double count = 0;
  for (const std::string_view token : split_fasttext(text)) {
    std::size_t pos = 0;
    count += is_alnum(next_code_point(token, pos)) ? 1 : 0;
  }
  return count;
}

bool is_word_character(char32_t c) { return is_alnum(c) || c == '_'; }

/// "3,214 likes": a number with its unit of attention, and nothing else but signs around it.
bool is_counter(std::string_view line) {
  std::size_t pos = 0;
  const auto skip_signs = [&] {
    while (pos < line.size()) {
      std::size_t next = pos;
      if (is_word_character(next_code_point(line, next))) return;
      pos = next;
    }
  };
  skip_signs();
  const std::size_t digits = pos;
  while (pos < line.size() && ((line[pos] >= '0' && line[pos] <= '9') ||
                               (pos > digits && (line[pos] == ',' || line[pos] == '.'))))
    ++pos;
  if (pos == digits) return false;
  if (pos < line.size() && std::string_view("KkMmBb").find(line[pos]) != std::string_view::npos)
    ++pos;
  const std::size_t space = pos;
  while (pos < line.size() && line[pos] == ' ') ++pos;
  if (pos == space) return false;
  const std::string rest = lower_text(line.substr(pos));
  const auto counted = std::find_if(kCounted.begin(), kCounted.end(),
                                    [&](std::string_view word) { return rest.starts_with(word); });
  std::size_t length = counted == kCounted.end() ? 0 : counted->size();
  if (length == 0 && rest.starts_with("followers")) length = 9;
  if (length == 0) return false;
  pos += length;
  skip_signs();
  return pos == line.size();
}

bool is_left_out(std::string_view line) {
  if (line.empty()) return false;
  double characters = 0;
  double upper = 0;
  double digits = 0;
  for (std::size_t pos = 0; pos < line.size();) {
    const char32_t c = next_code_point(line, pos);
    characters += 1;
    upper += is_upper(c) ? 1 : 0;
    digits += char_kind(c) == CharKind::kDigit ? 1 : 0;
  }
  if (upper > kMaxUpperShare * characters || digits > kMaxDigitShare * characters) return true;
  return is_counter(line) || split_words(line).size() < kMinWords;
}

void cut(std::string& line, std::size_t pos, std::size_t length) {
  if (pos > 0 && line[pos - 1] == ' ') {
    --pos;
    ++length;
  } else if (pos + length < line.size() && line[pos + length] == ' ') {
    ++length;
  }
  line.erase(pos, length);
}

/// Takes page furniture out of short lines; true when something went.
bool cut_phrases(std::string& line) {
  if (split_words(line).size() > kMaxWordsForPhrases) return false;
  const std::size_t before = line.size();
  constexpr std::string_view kAnywhere = "items in cart";
  constexpr std::string_view kAtEnd = "Read more...";
  constexpr std::string_view kAtStart = "Sign-in";
  for (std::size_t pos; (pos = line.find(kAnywhere)) != std::string::npos;)
    cut(line, pos, kAnywhere.size());
  if (line.ends_with(kAtEnd)) cut(line, line.size() - kAtEnd.size(), kAtEnd.size());
  if (line.starts_with(kAtStart)) cut(line, 0, kAtStart.size());
  return line.size() != before;
}

}  // namespace

std::string edit_refinedweb(const PolicyText& page, Attributes& out, std::uint64_t& edits) {
  const double words_before = count_fasttext_alnum(page.text);
  std::string kept;
  bool first = true;
  std::size_t empty_run = 0;
  for (const std::string_view raw : split_newlines(page.text)) {
    if (is_left_out(raw)) {
      ++edits;
      continue;
    }
    std::string line(raw);
    if (cut_phrases(line)) {
      ++edits;
      if (strip(line).empty()) continue;
    }
    empty_run = line.empty() ? empty_run + 1 : 0;
    if (empty_run > 1) continue;  // no more than two line ends in a row
    if (!first) kept += '\n';
    kept += line;
    first = false;
  }
  const double words_after = count_fasttext_alnum(kept);
  out.set("words", words_before);
  out.set("removed_words", words_before - words_after);
  out.set("words_left", words_after);
  return std::string(strip(kept));
}

}  // namespace sx
