// Word splitting of spaCy's blank English pipeline (segment.h).
#include <algorithm>
#include <unordered_map>

#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"
#include "sextant/text/word_tables.h"

namespace sx {

namespace {

bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }

/// Words with a cut of their own: the word, and its pieces joined by U+001F.
const std::unordered_map<std::string, std::string_view>& exceptions() {
  static const auto kExceptions = [] {
    std::unordered_map<std::string, std::string_view> out;
    for (const std::string_view joined : word_tables().exceptions) {
      std::string word(joined);
      word.erase(std::remove(word.begin(), word.end(), '\x1F'), word.end());
      out.emplace(std::move(word), joined);
    }
    return out;
  }();
  return kExceptions;
}

/// A chunk between white space as code points, with where each begins in the chunk's bytes.
class Chunk {
 public:
  explicit Chunk(std::string_view bytes) : bytes_(bytes) {
    for (std::size_t pos = 0; pos < bytes.size();) {
      starts_.push_back(pos);
      points_.push_back(next_code_point(bytes, pos));
    }
    starts_.push_back(bytes.size());
  }

  /// Appends the chunk's words to `out`.
  void split(Pieces& out) {
    if (add_exception(0, size(), out)) return;
    Pieces prefixes;
    Pieces suffixes;
    std::size_t begin = 0;
    std::size_t end = size();
    cut_affixes(begin, end, prefixes, suffixes);
    out.insert(out.end(), prefixes.begin(), prefixes.end());
    if (begin < end && !add_exception(begin, end, out)) {
      if (is_url(begin, end))
        out.push_back(part(begin, end));
      else
        cut_infixes(begin, end, out);
    }
    out.insert(out.end(), suffixes.rbegin(), suffixes.rend());
  }

 private:
  std::size_t size() const { return points_.size(); }
  std::string_view part(std::size_t begin, std::size_t end) const {
    return bytes_.substr(starts_[begin], starts_[end] - starts_[begin]);
  }
  char32_t at(std::size_t i) const { return points_[i]; }

  bool is_exception(std::size_t begin, std::size_t end) const {
    return exceptions().contains(std::string(part(begin, end)));
  }

  bool add_exception(std::size_t begin, std::size_t end, Pieces& out) const {
    const std::string_view word = part(begin, end);
    if (word.size() > 32) return false;  // the longest has 29
    const auto found = exceptions().find(std::string(word));
    if (found == exceptions().end()) return false;
    std::size_t from = 0;
    std::size_t length = 0;
    for (const char c : found->second) {
      if (c != '\x1F') {
        ++length;
        continue;
      }
      out.push_back(word.substr(from, length));
      from += length;
      length = 0;
    }
    out.push_back(word.substr(from, length));
    return true;
  }

  void cut_affixes(std::size_t& begin, std::size_t& end, Pieces& prefixes, Pieces& suffixes) {
    std::size_t last = 0;
    while (begin < end && end - begin != last) {
      if (is_exception(begin, end)) return;
      last = end - begin;
      const std::size_t prefix = prefix_length(begin, end);
      if (prefix > 0 && begin + prefix < end && is_exception(begin + prefix, end)) {
        prefixes.push_back(part(begin, begin + prefix));
        begin += prefix;
        return;
      }
      const std::size_t suffix = suffix_length(begin + prefix, end);
      if (suffix > 0 && begin < end - suffix && is_exception(begin, end - suffix)) {
        suffixes.push_back(part(end - suffix, end));
        end -= suffix;
        return;
      }
      if (prefix > 0) prefixes.push_back(part(begin, begin + prefix));
      if (suffix > 0) suffixes.push_back(part(end - suffix, end));
      begin += prefix;
      end -= suffix;
    }
  }

  /// Length of the first of `texts` that stands at `pos`.
  std::size_t text_at(const std::vector<std::string_view>& texts, std::size_t pos,
                      std::size_t end) const {
    const std::string_view rest = part(pos, end);
    for (const std::string_view text : texts) {
      if (rest.starts_with(text)) return count_code_points(text);
    }
    return 0;
  }

  /// Length of the longest of `texts` that ends the word behind a digit.
  std::size_t text_behind_digit(const std::vector<std::string_view>& texts, std::size_t begin,
                                std::size_t end) const {
    const std::string_view word = part(begin, end);
    std::size_t longest = 0;
    for (const std::string_view text : texts) {
      if (!word.ends_with(text) || word.size() == text.size()) continue;
      const std::size_t length = count_code_points(text);
      if (length > longest && is_ascii_digit(at(end - length - 1))) longest = length;
    }
    return longest;
  }

  std::size_t dots_at(std::size_t pos, std::size_t end) const {
    std::size_t dots = 0;
    while (pos + dots < end && at(pos + dots) == '.') ++dots;
    return dots >= 2 ? dots : 0;
  }

  std::size_t prefix_length(std::size_t begin, std::size_t end) const {
    const WordTables& t = word_tables();
    const char32_t c = at(begin);
    if (c == 0xA7 || c == '%' || c == '=' || c == 0x2014 || c == 0x2013) return 1;
    if (c == '+') return begin + 1 < end && is_ascii_digit(at(begin + 1)) ? 0 : 1;
    if (t.punctuation.contains(c)) return 1;
    if (c == '.') return dots_at(begin, end);
    if (t.quotes.contains(c)) return 1;
    if (const std::size_t currency = text_at(t.currency, begin, end)) return currency;
    return t.icons.contains(c) ? 1 : 0;
  }

  std::size_t suffix_length(std::size_t begin, std::size_t end) const {
    if (begin >= end) return 0;
    const WordTables& t = word_tables();
    const char32_t c = at(end - 1);
    std::size_t length = 0;
    if (t.punctuation.contains(c) || t.quotes.contains(c) || t.icons.contains(c) || c == 0x2014 ||
        c == 0x2013)
      length = 1;
    if (c == 0x2026 && end - begin >= 2 && at(end - 2) == 0x2026) length = 2;
    if (end - begin >= 2 && (c == 's' || c == 'S') &&
        (at(end - 2) == '\'' || at(end - 2) == 0x2019))
      length = 2;
    if (c == '+' && end - begin >= 2 && is_ascii_digit(at(end - 2))) length = 1;
    if (c == '.') length = std::max(length, full_stop_length(begin, end));
    length = std::max(length, text_behind_digit(t.currency, begin, end));
    return std::max(length, text_behind_digit(t.units, begin, end));
  }

  std::size_t full_stop_length(std::size_t begin, std::size_t end) const {
    std::size_t dots = 0;
    while (end - dots > begin && at(end - dots - 1) == '.') ++dots;
    if (dots >= 2) return dots;
    if (end - begin < 2) return 0;
    const WordTables& t = word_tables();
    const char32_t before = at(end - 2);
    if (is_ascii_digit(before) || t.lower.contains(before) || before == '%' || before == 0xB2 ||
        before == '-' || before == '+' || before == '|' || t.punctuation.contains(before) ||
        t.quotes.contains(before))
      return 1;
    if (end - begin < 3) return 0;
    const char32_t second = at(end - 3);
    const bool is_degree =
        second == 0xB0 && std::u32string_view(U"FfCcKk").find(before) != std::u32string_view::npos;
    return is_degree || (t.upper.contains(before) && t.upper.contains(second)) ? 1 : 0;
  }

  void cut_infixes(std::size_t begin, std::size_t end, Pieces& out) const {
    std::size_t start = begin;
    for (std::size_t pos = begin; pos < end;) {
      const std::size_t length = infix_length(begin, pos, end);
      if (length == 0) {
        ++pos;
        continue;
      }
      if (pos != begin) {  // a match at the very start cuts nothing
        if (pos != start) out.push_back(part(start, pos));
        out.push_back(part(pos, pos + length));
        start = pos + length;
      }
      pos += length;
    }
    if (start < end) out.push_back(part(start, end));
  }

  std::size_t infix_length(std::size_t begin, std::size_t pos, std::size_t end) const {
    const WordTables& t = word_tables();
    const char32_t c = at(pos);
    if (c == '.') {
      if (const std::size_t dots = dots_at(pos, end)) return dots;
    }
    if (c == 0x2026 || t.icons.contains(c)) return 1;
    if (pos == begin) return 0;
    const char32_t before = at(pos - 1);
    const auto next_is = [&](const CharacterSet& set, std::size_t i) {
      return i < end && set.contains(at(i));
    };
    if ((c == '+' || c == '-' || c == '*' || c == '^') && is_ascii_digit(before) && pos + 1 < end &&
        (is_ascii_digit(at(pos + 1)) || at(pos + 1) == '-'))
      return 1;
    if (c == '.' && (t.lower.contains(before) || t.quotes.contains(before)) &&
        (next_is(t.upper, pos + 1) || next_is(t.quotes, pos + 1)))
      return 1;
    if (c == ',' && t.alpha.contains(before) && next_is(t.alpha, pos + 1)) return 1;
    if (!t.alpha.contains(before) && !is_ascii_digit(before)) return 0;
    if (c == ':' || c == '<' || c == '>' || c == '=' || c == '/')
      return next_is(t.alpha, pos + 1) ? 1 : 0;
    for (const std::string_view hyphen : t.hyphens) {
      const std::size_t length = count_code_points(hyphen);
      if (part(pos, end).starts_with(hyphen) && next_is(t.alpha, pos + length)) return length;
    }
    return 0;
  }

  bool is_url(std::size_t begin, std::size_t end) const {
    if (end - begin < 4) return false;
    bool has_stop = false;
    for (std::size_t i = begin; i < end; ++i) has_stop = has_stop || at(i) == '.';
    if (!has_stop) return false;
    std::size_t scheme = begin;
    while (scheme < end && (is_alnum(at(scheme)) || at(scheme) == '_' || at(scheme) == '+' ||
                            at(scheme) == '-' || at(scheme) == '.'))
      ++scheme;
    std::size_t host = begin;
    if (scheme - begin >= 2 && part(scheme, end).starts_with("://")) host = scheme + 3;
    if (is_host_and_path(host, end)) return true;
    std::size_t tries = 0;
    for (std::size_t i = end; i-- > host + 1;) {
      if (at(i) == '@' && is_host_and_path(i + 1, end)) return true;
      if (at(i) == '@' && ++tries == 8) break;
    }
    return false;
  }

  static bool is_host_character(char32_t c) {
    return (c < 128 && is_alnum(c)) || (c >= 0xA1 && c <= 0xFFFF);
  }

  bool is_host_and_path(std::size_t begin, std::size_t end) const {
    std::size_t host_end = begin;
    while (host_end < end && at(host_end) != ':' && at(host_end) != '/' && at(host_end) != '?' &&
           at(host_end) != '#')
      ++host_end;
    if (!is_host(begin, host_end) && !is_address(begin, host_end)) return false;
    std::size_t pos = host_end;
    if (pos < end && at(pos) == ':') {
      std::size_t digits = 0;
      while (pos + 1 + digits < end && is_ascii_digit(at(pos + 1 + digits))) ++digits;
      if (digits < 2 || digits > 5) return false;
      pos += 1 + digits;
    }
    return pos == end || at(pos) == '/' || at(pos) == '?' || at(pos) == '#';
  }

  bool is_host(std::size_t begin, std::size_t end) const {
    std::size_t labels = 0;
    std::size_t label = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (at(i) != '.') continue;
      if (i == label || i - label > 64) return false;
      for (std::size_t k = label; k < i; ++k) {
        const bool edge = k == label || k + 1 == i;
        if (!is_host_character(at(k)) && (edge || (at(k) != '-' && at(k) != '_'))) return false;
      }
      ++labels;
      label = i + 1;
    }
    if (labels == 0 || end - label < 2 || end - label > 63) return false;
    for (std::size_t k = label; k < end; ++k) {
      if (!word_tables().lower.contains(at(k))) return false;
    }
    return true;
  }

  /// Four numbers that are a public unicast address.
  bool is_address(std::size_t begin, std::size_t end) const {
    unsigned numbers[4] = {};
    std::size_t count = 0;
    for (std::size_t i = begin; i < end;) {
      std::size_t digits = 0;
      unsigned value = 0;
      while (i + digits < end && is_ascii_digit(at(i + digits)) && digits < 4)
        value = value * 10 + static_cast<unsigned>(at(i + digits++) - '0');
      if (digits == 0 || digits > 3 || value > 255 || count == 4) return false;
      if (digits > 1 && at(i) == '0' && (count == 0 || count == 3)) return false;
      numbers[count++] = value;
      i += digits;
      if (i == end) break;
      if (at(i) != '.' || i + 1 == end) return false;
      ++i;
    }
    if (count != 4 || numbers[0] == 0 || numbers[0] > 223 || numbers[3] == 0 || numbers[3] == 255)
      return false;
    if (numbers[0] == 10 || numbers[0] == 127) return false;
    if ((numbers[0] == 169 && numbers[1] == 254) || (numbers[0] == 192 && numbers[1] == 168))
      return false;
    return numbers[0] != 172 || numbers[1] < 16 || numbers[1] > 31;
  }

  std::string_view bytes_;
  std::vector<char32_t> points_;
  std::vector<std::size_t> starts_;
};

/// Chunks and the white space between them in order, as spaCy's tokenizer walks them: of a run of
/// white space the first U+0020 belongs to the word before it, the rest is a token of its own.
template <class OnWords, class OnSpace>
void walk_chunks(std::string_view text, OnWords on_words, OnSpace on_space) {
  std::size_t begin = 0;
  bool in_space = false;
  bool first = true;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(text, pos);
    const bool space = is_space(c);
    if (first) {
      in_space = space;
      first = false;
    }
    if (space == in_space) continue;
    if (begin < at) {
      if (in_space)
        on_space();
      else
        on_words(text.substr(begin, at - begin));
    }
    begin = c == ' ' ? pos : at;
    in_space = space;
  }
  if (begin < text.size()) {
    if (in_space)
      on_space();
    else
      on_words(text.substr(begin));
  }
}

bool is_plain_word(std::string_view chunk) {
  return chunk.size() > 10 && chunk.size() < 40 &&
         std::all_of(chunk.begin(), chunk.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

void split_chunk(std::string_view chunk, Pieces& out) {
  if (is_plain_word(chunk))  // no exception of letters alone has more than ten
    out.push_back(chunk);
  else
    Chunk(chunk).split(out);
}

bool is_sentence_end(std::string_view token) {
  std::size_t pos = 0;
  const char32_t c = next_code_point(token, pos);
  return pos == token.size() && word_tables().sentence_ends.contains(c);
}

bool is_punctuation(std::string_view token) {
  for (std::size_t pos = 0; pos < token.size();) {
    if (char_kind(next_code_point(token, pos)) != CharKind::kPunctuation) return false;
  }
  return true;
}

}  // namespace

Pieces split_spacy_english(std::string_view text) {
  Pieces out;
  walk_chunks(
      text, [&](std::string_view chunk) { split_chunk(chunk, out); }, [] {});
  return out;
}

std::size_t count_spacy_sentences(std::string_view text) {
  std::size_t sentences = 0;
  bool ended = false;      // a sentence end was seen in this sentence
  bool has_words = false;  // it has more than white space
  Pieces tokens;
  const auto close = [&] {
    sentences += has_words ? 1 : 0;
    has_words = false;
    ended = false;
  };
  const auto on_words = [&](std::string_view chunk) {
    tokens.clear();
    split_chunk(chunk, tokens);
    for (const std::string_view token : tokens) {
      const bool ends = is_sentence_end(token);
      if (ended && !ends && !is_punctuation(token)) close();
      ended = ended || ends;
      has_words = true;
    }
  };
  walk_chunks(text, on_words, [&] {
    if (ended) close();
  });
  close();
  return sentences;
}

}  // namespace sx
