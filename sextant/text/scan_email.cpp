#include <algorithm>
#include <array>

#include "sextant/text/ascii.h"
#include "sextant/text/scan_pii.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxDomain = 253;

bool is_email_digit(char c) { return c >= '0' && c <= '9'; }
bool is_email_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }
bool is_email_alnum(char c) { return is_email_digit(c) || is_email_letter(c); }
bool is_atom(char c) {
  return is_email_alnum(c) ||
         std::string_view("!#$%&'*+/=?^_`{|}~-").find(c) != std::string_view::npos;
}

/// Ends of names of files that look like addresses.
bool is_file_ending(std::string_view label) {
  static constexpr std::array<std::string_view, 16> kEndings = {
      "png", "jpg", "jpeg", "gif", "svg",  "webp", "css", "js",
      "ico", "mp4", "html", "php", "woff", "ttf",  "pdf", "avif"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return equal_fold(label, ending); });
}

bool is_top_level(std::string_view label) {
  if (label.size() < 2 || label.size() > 24 || is_file_ending(label)) return false;
  if (label.size() > 4 && equal_fold(label.substr(0, 4), "xn--")) return true;
  return std::all_of(label.begin(), label.end(), is_email_letter);
}

/// Four numbers up to 255 at `pos`; the position behind them, or `pos`.
std::size_t quad_end(std::string_view text, std::size_t pos) {
  std::size_t i = pos;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (i >= text.size() || text[i++] != '.')) return pos;
    int value = 0;
    std::size_t digits = 0;
    while (i < text.size() && is_email_digit(text[i]) && digits < 4) {
      value = value * 10 + (text[i++] - '0');
      ++digits;
    }
    if (digits == 0 || digits > 3 || value > 255) return pos;
  }
  return i;
}

/// End of the domain that begins at `pos`; `pos` when there is none.
std::size_t domain_end(std::string_view text, std::size_t pos) {
  if (pos < text.size() && text[pos] == '[') {
    const std::size_t end = quad_end(text, pos + 1);
    return end > pos + 1 && end < text.size() && text[end] == ']' ? end + 1 : pos;
  }
  std::size_t best = pos;
  std::size_t label = pos;
  const std::size_t limit = std::min(text.size(), pos + kMaxDomain);
  for (std::size_t labels = 0; label < limit; ++labels) {
    std::size_t end = label;
    while (end < limit && (is_email_alnum(text[end]) || text[end] == '-')) ++end;
    std::size_t last = end;
    while (last > label && text[last - 1] == '-') --last;
    if (last == label || text[label] == '-' || end - label > 63) break;
    const bool cut = end < text.size() && (static_cast<unsigned char>(text[end]) >= 0x80 ||
                                           text[end] == '_' || text[end] == '@');
    if (labels > 0 && !cut && is_top_level(text.substr(label, last - label))) best = last;
    if (end >= limit || text[end] != '.' || last != end) break;
    label = end + 1;
  }
  return best;
}

/// Begin of the name that ends at `at`, not before `floor`; `at` when there is none.
std::size_t name_begin(std::string_view text, std::size_t floor, std::size_t at) {
  if (at == floor || text[at - 1] == '.') return at;
  std::size_t begin = at;
  while (begin > floor && at - begin <= kMaxName) {
    const char c = text[begin - 1];
    if (!is_atom(c) && c != '.') break;
    if (c == '.' && text[begin] == '.') break;
    --begin;
  }
  if (at - begin > kMaxName) return at;
  // Letters beyond ASCII in front belong to the name: it is none that we know how to end.
  while (begin < at && (text[begin] == '.' || text[begin] == '\'' || text[begin] == '=' ||
                        text[begin] == '/' || text[begin] == '*' || text[begin] == '|'))
    ++begin;
  return begin;
}

/// datatrove's domain: two or more labels of letters, digits and inner dashes.
std::size_t datatrove_domain_end(std::string_view text, std::size_t pos) {
  if (pos < text.size() && text[pos] == '[') {
    const std::size_t end = quad_end(text, pos + 1);
    return end > pos + 1 && end < text.size() && text[end] == ']' ? end + 1 : pos;
  }
  std::size_t best = pos;
  std::size_t label = pos;
  for (std::size_t labels = 0; label < text.size(); ++labels) {
    if (!is_email_alnum(text[label])) break;
    std::size_t end = label;
    while (end < text.size() && (is_email_alnum(text[end]) || text[end] == '-')) ++end;
    std::size_t last = end;
    while (text[last - 1] == '-') --last;
    if (labels > 0) best = last;
    if (end >= text.size() || text[end] != '.' || last != end) break;
    label = end + 1;
  }
  return best;
}

bool is_word_before(std::string_view text, std::size_t pos) {
  if (pos == 0) return false;
  std::size_t begin = pos - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const char32_t c = next_code_point(text, begin);
  return is_alnum(c) || c == '_';
}

}  // namespace

TextSpans scan_emails(std::string_view text) {
  TextSpans out;
  std::size_t floor = 0;
  for (std::size_t at = 0; (at = text.find('@', at)) != std::string_view::npos; ++at) {
    const std::size_t begin = name_begin(text, floor, at);
    if (begin < at) {
      const std::size_t end = domain_end(text, at + 1);
      if (end > at + 1) {
        out.push_back({begin, end});
        floor = end;
        at = end - 1;
        continue;
      }
    }
    floor = at + 1;
  }
  return out;
}

TextSpans scan_emails_datatrove(std::string_view text) {
  TextSpans out;
  std::size_t floor = 0;
  for (std::size_t at = 0; (at = text.find('@', at)) != std::string_view::npos; ++at) {
    std::size_t first = at;  // of the run of atoms and single dots in front
    while (first > floor && (is_atom(text[first - 1]) ||
                             (text[first - 1] == '.' && first < at && text[first] != '.')))
      --first;
    std::size_t begin = at;
    for (std::size_t i = first; i < at; ++i) {
      if (text[i] == '.') continue;
      const bool word = is_email_alnum(text[i]) || text[i] == '_';
      if (word != is_word_before(text, i)) {
        begin = i;
        break;
      }
    }
    const std::size_t end = begin < at ? datatrove_domain_end(text, at + 1) : at;
    if (end > at + 1) {
      out.push_back({begin, end});
      floor = end;
      at = end - 1;
    } else {
      floor = at + 1;
    }
  }
  return out;
}

}  // namespace sx
