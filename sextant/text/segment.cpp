#include "sextant/text/segment.h"

#include <algorithm>

#include "sextant/text/unicode.h"
#include "sextant/text/word_tables.h"

namespace sx {

namespace {

/// Pieces between separators of one character; empty ones are left out.
template <class IsSeparator>
Pieces split_where(std::string_view text, IsSeparator is_separator) {
  Pieces out;
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    if (!is_separator(next_code_point(text, pos))) continue;
    if (at > begin) out.push_back(text.substr(begin, at - begin));
    begin = pos;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

/// Scripts written without spaces between words.
bool is_unspaced(char32_t c) {
  return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF) || (c >= 0x0E00 && c <= 0x0EFF) ||
         (c >= 0x1000 && c <= 0x109F) || (c >= 0x1780 && c <= 0x17FF);
}

bool is_joiner(char32_t c) {
  return c == '\'' || c == 0x2019 || c == '.' || c == ',' || c == '_' || c == ':';
}

}  // namespace

Pieces split_words(std::string_view text) { return split_where(text, is_space); }

Pieces split_fasttext(std::string_view text) {
  return split_where(text,
                     [](char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; });
}

Pieces split_lines(std::string_view text) {
  Pieces out;
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(text, pos);
    const bool cuts = (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!cuts) continue;
    out.push_back(text.substr(begin, at - begin));
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    begin = pos;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

Pieces split_newlines(std::string_view text) {
  Pieces out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

Pieces split_newline_runs(std::string_view text, std::size_t min_run) {
  Pieces out;
  std::size_t begin = 0;
  for (std::size_t pos = 0; (pos = text.find('\n', pos)) != std::string_view::npos;) {
    std::size_t end = pos;
    while (end < text.size() && text[end] == '\n') ++end;
    if (end - pos >= min_run) {
      out.push_back(text.substr(begin, pos - begin));
      begin = end;
    }
    pos = end;
  }
  out.push_back(text.substr(begin));
  return out;
}

Pieces split_any_script(std::string_view text) {
  Pieces out;
  std::size_t begin = std::string_view::npos;  // of the word in work
  std::size_t end = 0;
  std::size_t unspaced = 0;  // characters of it that are written without spaces
  const auto close = [&] {
    if (begin != std::string_view::npos) out.push_back(text.substr(begin, end - begin));
    begin = std::string_view::npos;
    unspaced = 0;
  };
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(text, pos);
    if (is_unspaced(c) && is_letter_or_mark(c)) {
      if (unspaced == 0 || unspaced == 2) close();
      if (begin == std::string_view::npos) begin = at;
      ++unspaced;
      end = pos;
    } else if (is_alnum(c) || is_letter_or_mark(c)) {
      if (unspaced > 0) close();
      if (begin == std::string_view::npos) begin = at;
      end = pos;
    } else if (begin != std::string_view::npos) {
      std::size_t next = pos;
      const bool joins = unspaced == 0 && is_joiner(c) && pos < text.size() &&
                         is_alnum(next_code_point(text, next));
      if (!joins) close();
    }
  }
  close();
  return out;
}

bool is_terminal_punctuation(char32_t c) { return word_tables().terminal.contains(c); }

bool is_peer_symbol(char32_t c) {
  return c == 0 || word_tables().peer_punctuation.contains(c) || word_tables().terminal.contains(c);
}

}  // namespace sx
