#include <algorithm>
#include <array>

#include "sextant/crawl/filters/rules.h"
#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

constexpr std::array<std::string_view, 8> kStopWords = {"the", "be",   "to",   "of",
                                                        "and", "that", "have", "with"};

/// Index of the stop word that `word` is, or the number of them.
std::size_t stop_word_index(std::string_view word) {
  return static_cast<std::size_t>(std::find(kStopWords.begin(), kStopWords.end(), word) -
                                  kStopWords.begin());
}

std::size_t count_of(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (std::size_t pos = 0; (pos = text.find(piece, pos)) != std::string_view::npos;
       pos += piece.size())
    ++count;
  return count;
}

bool has_letter(std::string_view word) {
  for (std::size_t pos = 0; pos < word.size();) {
    if (is_letter(next_code_point(word, pos))) return true;
  }
  return false;
}

bool has_non_symbol(std::string_view word) {
  for (std::size_t pos = 0; pos < word.size();) {
    if (!is_peer_symbol(next_code_point(word, pos))) return true;
  }
  return false;
}

/// Numbers that all presets take of their words.
struct WordCounts {
  double words = 0, characters = 0, alpha = 0;
  double stop_exact = 0, stop_folded = 0;                    // occurrences
  double stop_distinct_exact = 0, stop_distinct_folded = 0;  // how many of the eight
};

WordCounts count_words(const Pieces& words) {
  WordCounts out;
  std::array<bool, 9> seen{};
  std::array<bool, 9> seen_folded{};
  for (const std::string_view word : words) {
    out.words += 1;
    out.characters += static_cast<double>(count_code_points(word));
    out.alpha += has_letter(word) ? 1 : 0;
    if (word.size() > 4 || word.size() < 2) continue;
    const std::size_t exact = stop_word_index(word);
    out.stop_exact += exact < kStopWords.size() ? 1 : 0;
    seen[exact] = true;
    const std::size_t folded = stop_word_index(lower_text(word));
    out.stop_folded += folded < kStopWords.size() ? 1 : 0;
    seen_folded[folded] = true;
  }
  out.stop_distinct_exact = static_cast<double>(std::count(seen.begin(), seen.end() - 1, true));
  out.stop_distinct_folded =
      static_cast<double>(std::count(seen_folded.begin(), seen_folded.end() - 1, true));
  return out;
}

void set_words(const WordCounts& counts, Attributes& out) {
  out.set("words", counts.words);
  out.set("word_chars", counts.characters);
  out.set("alpha_words", counts.alpha);
}

void set_symbols(std::string_view text, Attributes& out) {
  out.set("hashes", static_cast<double>(count_of(text, "#")));
  out.set("ellipses", static_cast<double>(count_of(text, "...") + count_of(text, "…")));
}

bool ends_in_ellipsis(std::string_view line) {
  return line.ends_with("...") || line.ends_with("…");
}

template <class IsBullet, class IsEllipsis>
void set_lines(const Pieces& lines, Attributes& out, IsBullet is_bullet, IsEllipsis is_ellipsis) {
  out.set("lines", static_cast<double>(lines.size()));
  out.set("bullet_lines",
          static_cast<double>(std::count_if(lines.begin(), lines.end(), is_bullet)));
  out.set("ellipsis_lines",
          static_cast<double>(std::count_if(lines.begin(), lines.end(), is_ellipsis)));
}

bool starts_with_any(std::string_view line, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return line.starts_with(start); });
}

}  // namespace

void measure_gopher_paper(const PolicyText& page, Attributes& out) {
  const WordCounts counts = count_words(split_words(page.text));
  set_words(counts, out);
  set_symbols(page.text, out);
  set_lines(
      split_newlines(page.text), out,
      [](std::string_view line) { return strip_left(line).starts_with("•"); },
      [](std::string_view line) { return ends_in_ellipsis(strip_right(line)); });
  out.set("stop_words", counts.stop_distinct_folded);
}

void measure_gopher_datatrove(const PolicyText& page, Attributes& out) {
  const Pieces words = split_spacy_english(page.text);
  const WordCounts counts = count_words(words);
  set_words(counts, out);
  double non_symbol = 0;
  double non_symbol_chars = 0;
  for (const std::string_view word : words) {
    if (!has_non_symbol(word)) continue;
    non_symbol += 1;
    non_symbol_chars += static_cast<double>(count_code_points(word));
  }
  out.set("non_symbol_words", non_symbol);
  out.set("non_symbol_chars", non_symbol_chars);
  set_symbols(page.text, out);
  set_lines(
      split_lines(page.text), out,
      [](std::string_view line) {
        return starts_with_any(strip_left(line), {"•", "-"});
      },
      [](std::string_view line) { return ends_in_ellipsis(strip_right(line)); });
  out.set("stop_words", counts.stop_distinct_exact);
}

void measure_gopher_dclm(const PolicyText& page, Attributes& out) {
  const WordCounts counts = count_words(split_words(page.text));
  set_words(counts, out);
  double counted = 0;
  for (const std::string_view token : split_fasttext(page.text)) {
    std::size_t pos = 0;
    counted += is_alnum(next_code_point(token, pos)) ? 1 : 0;
  }
  out.set("counted_words", counted);
  set_symbols(page.text, out);
  out.set("symbols", out.get("hashes") + out.get("ellipses") +
                         static_cast<double>(count_of(page.text, ". . .")));
  out.set("non_alpha_words", counts.words - counts.alpha);
  Pieces lines;
  for (const std::string_view line : split_newlines(page.text)) {
    if (!strip(line).empty()) lines.push_back(strip(line));
  }
  set_lines(
      lines, out,
      [](std::string_view line) {
        return starts_with_any(line, {"●", "•", "*", "-"});
      },
      [](std::string_view line) { return ends_in_ellipsis(line) || line.ends_with(". . ."); });
  out.set("stop_words", counts.stop_folded);
}

void measure_gopher_dolma(const PolicyText& page, Attributes& out) {
  const Pieces words = split_words(page.text);
  const WordCounts counts = count_words(words);
  set_words(counts, out);
  std::vector<std::size_t> lengths;
  double symbol_words = 0;
  for (const std::string_view word : words) {
    lengths.push_back(count_code_points(word));
    const bool symbol =
        word.find('#') != std::string_view::npos || word.find("…") != std::string_view::npos;
    symbol_words += symbol ? 1 : 0;
  }
  std::sort(lengths.begin(), lengths.end());
  const std::size_t half = lengths.size() / 2;
  double median = 0;
  if (!lengths.empty()) {
    median = static_cast<double>(lengths[half]);
    if (lengths.size() % 2 == 0) median = (median + static_cast<double>(lengths[half - 1])) / 2;
  }
  out.set("median_word_length", median);
  out.set("symbol_words", symbol_words);
  set_lines(
      split_newlines(page.text), out,
      [](std::string_view line) {
        return starts_with_any(line, {"*", "-"});
      },
      [](std::string_view line) { return line.ends_with("…"); });
  out.set("stop_words", counts.stop_exact);
}

void measure_gopher_cs336(const PolicyText& page, Attributes& out) {
  set_words(count_words(split_words(page.text)), out);
  set_lines(
      split_lines(page.text), out, [](std::string_view) { return false; },
      [](std::string_view line) { return line.ends_with("..."); });
}

void measure_gopher_sextant(const PolicyText& page, Attributes& out) {
  const WordCounts counts = count_words(split_any_script(page.text));
  set_words(counts, out);
  set_symbols(page.text, out);
  set_lines(
      split_newlines(page.text), out,
      [](std::string_view line) {
        return starts_with_any(strip_left(line), {"•", "-", "*", "●", "◦", "‣"});
      },
      [](std::string_view line) { return ends_in_ellipsis(strip_right(line)); });
  // Rules about English words say nothing about a page in another language.
  const bool english = page.language == "en";
  out.set("stop_words", english ? counts.stop_distinct_folded : 8);
  out.set("mean_words", english ? counts.words : 1);
  out.set("mean_chars", english ? counts.characters : 5);
}

}  // namespace sx
