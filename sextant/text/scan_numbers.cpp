#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "sextant/text/ascii.h"
#include "sextant/text/scan_pii.h"

namespace sx {

namespace {

bool is_number_digit(char c) { return c >= '0' && c <= '9'; }
bool is_number_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }
bool digit_at(std::string_view text, std::size_t i) {
  return i < text.size() && is_number_digit(text[i]);
}

std::size_t digits_at(std::string_view text, std::size_t i, std::size_t most) {
  std::size_t n = 0;
  while (n < most && digit_at(text, i + n)) ++n;
  return n;
}

bool is_group_mark(char c) { return c == ' ' || c == '.' || c == '-'; }

/// 3 + 3 + 4 digits at `pos`, `pos` itself when there are none. `grouped` is set when the groups
/// are set apart.
std::size_t ten_digits_end(std::string_view text, std::size_t pos, bool& grouped) {
  std::size_t i = pos;
  const bool open = text[i] == '(';
  if (open) ++i;
  if (digits_at(text, i, 4) < 3) return pos;
  i += 3;
  if (open && (i >= text.size() || text[i] != ')')) return pos;
  if (i < text.size() && text[i] == ')') ++i;
  grouped = open;
  for (const std::size_t group : {std::size_t{3}, std::size_t{4}}) {
    if (i < text.size() && is_group_mark(text[i])) {
      ++i;
      grouped = true;
    }
    if (digits_at(text, i, group) < group) return pos;
    i += group;
  }
  return digit_at(text, i) ? pos : i;
}

/// Words in front of a number that make it something else.
bool is_named_number(std::string_view text, std::size_t pos) {
  const std::size_t from = pos > 16 ? pos - 16 : 0;
  std::string before;
  for (const char c : text.substr(from, pos - from)) before += to_lower(c);
  static constexpr std::array<std::string_view, 6> kWords = {"isbn",  "issn", "doi",
                                                             "order", "item", "#"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return before.find(word) != std::string::npos; });
}

/// True when the byte in front ties the number to something longer.
bool is_tied_before(std::string_view text, std::size_t pos) {
  if (pos == 0) return false;
  const char c = text[pos - 1];
  return is_number_digit(c) || is_number_letter(c) || c == '/' || c == '=' || c == '_' ||
         c == '-' || c == '.' || c == '&' || c == '%';
}

bool is_tied_behind(std::string_view text, std::size_t end) {
  if (end >= text.size()) return false;
  const char c = text[end];
  if (is_number_letter(c) || c == '_' || c == '/') return true;
  return (c == '-' || c == '.') && digit_at(text, end + 1);
}

/// +CC and groups: the end, or `pos`.
std::size_t international_end(std::string_view text, std::size_t pos) {
  std::size_t i = pos + 1;
  std::size_t digits = 0;
  std::size_t end = pos;
  bool gap = false;
  if (!digit_at(text, i) || text[i] == '0') return pos;
  while (i < text.size() && i - pos < 24) {
    if (is_number_digit(text[i])) {
      ++digits;
      end = ++i;
      gap = false;
    } else if ((is_group_mark(text[i]) || text[i] == '(' || text[i] == ')') && !gap) {
      gap = text[i] != '(' && text[i] != ')';
      ++i;
    } else {
      break;
    }
  }
  return digits >= 7 && digits <= 15 && !digit_at(text, end) ? end : pos;
}

/// The longest first octets of an IPv4 address as a pattern without borders takes them.
std::size_t octet_before_stop(std::string_view text, std::size_t i) {
  const std::size_t n = digits_at(text, i, 4);
  if (n == 0 || n > 3 || i + n >= text.size() || text[i + n] != '.') return 0;
  if (n == 3 && text[i] >= '2' && !(text[i] == '2' && text.substr(i, 3) <= "255")) return 0;
  return n;
}

std::size_t last_octet(std::string_view text, std::size_t i) {
  const std::size_t n = digits_at(text, i, 3);
  if (n == 3 && (text[i] <= '1' || (text[i] == '2' && text.substr(i, 3) <= "255"))) return 3;
  return std::min<std::size_t>(n, 2);
}

struct Ipv4 {
  std::array<unsigned, 4> octets{};
  bool leading_zero = false;
};

Ipv4 parse_ipv4(std::string_view text) {
  Ipv4 out;
  std::size_t index = 0;
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '.') {
      ++index;
      digits = 0;
      continue;
    }
    if (digits > 0 && out.octets[index] == 0) out.leading_zero = true;
    out.octets[index] = out.octets[index] * 10 + static_cast<unsigned>(c - '0');
    ++digits;
  }
  return out;
}

/// Addresses of the public internet. Source: IANA's special-purpose registry.
bool is_global(const Ipv4& ip) {
  const auto& o = ip.octets;
  if (ip.leading_zero) return false;
  if (o[0] == 0 || o[0] == 10 || o[0] == 127 || o[0] >= 240) return false;
  if (o[0] == 100 && o[1] >= 64 && o[1] <= 127) return false;
  if (o[0] == 169 && o[1] == 254) return false;
  if (o[0] == 172 && o[1] >= 16 && o[1] <= 31) return false;
  if (o[0] == 192 && o[1] == 168) return false;
  if (o[0] == 192 && o[1] == 0 && (o[2] == 2 || (o[2] == 0 && o[3] != 9 && o[3] != 10)))
    return false;
  if (o[0] == 198 && (o[1] == 18 || o[1] == 19 || (o[1] == 51 && o[2] == 100))) return false;
  return !(o[0] == 203 && o[1] == 0 && o[2] == 113);
}

/// RFC 4291, 2.2: eight groups, or fewer with one "::"; the last two may be an IPv4 address.
bool is_ipv6(std::string_view token) {
  if (token.size() < 4 || token.size() > 45) return false;
  std::size_t groups = 0;
  bool gap = false;
  bool digit = false;
  std::size_t i = 0;
  if (token.starts_with("::")) {
    gap = true;
    i = 2;
  } else if (token.front() == ':') {
    return false;
  }
  while (i < token.size()) {
    std::size_t n = 0;
    while (i + n < token.size() &&
           (is_number_digit(token[i + n]) ||
            (to_lower(token[i + n]) >= 'a' && to_lower(token[i + n]) <= 'f'))) {
      digit = digit || is_number_digit(token[i + n]);
      ++n;
    }
    if (n == 0) return false;
    if (i + n < token.size() && token[i + n] == '.') {
      const TextSpans v4 = scan_ipv4(token.substr(i));
      if (v4.size() != 1 || v4[0] != TextSpan{0, token.size() - i}) return false;
      groups += 2;
      i = token.size();
      break;
    }
    if (n > 4) return false;
    ++groups;
    i += n;
    if (i == token.size()) break;
    if (token[i] != ':') return false;
    ++i;
    if (i == token.size()) return false;
    if (token[i] == ':') {
      if (gap) return false;
      gap = true;
      ++i;
      if (i == token.size()) break;
    }
  }
  return digit && groups >= 2 && (gap ? groups < 8 : groups == 8);
}

}  // namespace

TextSpans scan_phones_cs336(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    const bool open = text[i] == '(' && digit_at(text, i + 1);
    if (!open && !is_number_digit(text[i])) {
      ++i;
      continue;
    }
    bool grouped = false;
    const bool tied = i > 0 && is_number_digit(text[i - 1]);
    const std::size_t end = tied ? i : ten_digits_end(text, i, grouped);
    if (end > i) {
      out.push_back({i, end});
      i = end;
    } else if (open) {
      ++i;
    } else {
      while (digit_at(text, i)) ++i;
    }
  }
  return out;
}

TextSpans scan_phones(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    const bool plus = text[i] == '+' && digit_at(text, i + 1);
    const bool open = text[i] == '(' && digit_at(text, i + 1);
    if (!plus && !open && !is_number_digit(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    if (!is_tied_before(text, i) && !is_named_number(text, i)) {
      if (plus) {
        end = international_end(text, i);
      } else {
        bool grouped = false;
        std::size_t start = i;
        if (text[i] == '1' && i + 1 < text.size() && is_group_mark(text[i + 1])) start = i + 2;
        if (start < text.size()) {
          const std::size_t found = ten_digits_end(text, start, grouped);
          const std::size_t area = start + (text[start] == '(' ? 1 : 0);
          if (found > start && grouped && text[area] >= '2') end = found;
        }
      }
      if (end > i && is_tied_behind(text, end)) end = i;
    }
    if (end > i) {
      out.push_back({i, end});
      i = end;
    } else if (is_number_digit(text[i])) {
      while (digit_at(text, i)) ++i;
    } else {
      ++i;
    }
  }
  return out;
}

TextSpans scan_ipv4(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_number_digit(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    std::size_t parts = 0;
    bool sound = i == 0 || (!is_number_letter(text[i - 1]) && text[i - 1] != '.' &&
                            text[i - 1] != '_' && text[i - 1] != '-');
    for (;;) {  // the whole dotted number
      const std::size_t n = digits_at(text, end, text.size());
      unsigned value = 0;
      for (std::size_t k = 0; k < std::min<std::size_t>(n, 4); ++k)
        value = value * 10 + static_cast<unsigned>(text[end + k] - '0');
      sound = sound && n <= 3 && value <= 255;
      ++parts;
      end += n;
      if (end + 1 >= text.size() || text[end] != '.' || !is_number_digit(text[end + 1])) break;
      ++end;
    }
    sound = sound && parts == 4;
    if (end < text.size() && (is_number_letter(text[end]) || text[end] == '_')) sound = false;
    if (sound) out.push_back({i, end});
    i = end;
  }
  return out;
}

TextSpans scan_ipv4_datatrove(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    if (is_number_digit(text[i])) {
      for (int part = 0; part < 3; ++part) {
        const std::size_t n = octet_before_stop(text, end);
        if (n == 0) {
          end = i;
          break;
        }
        end += n + 1;
      }
      if (end > i) {
        const std::size_t n = last_octet(text, end);
        end = n == 0 ? i : end + n;
      }
    }
    if (end == i) {
      ++i;
      continue;
    }
    if (is_global(parse_ipv4(text.substr(i, end - i)))) out.push_back({i, end});
    i = end;
  }
  return out;
}

TextSpans scan_ipv6(std::string_view text) {
  const auto is_part = [&](std::size_t i) {
    const char c = to_lower(text[i]);
    return is_number_digit(c) || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
  };
  TextSpans out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    if (!is_part(begin)) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    std::size_t colons = 0;
    while (end < text.size() && is_part(end)) colons += text[end++] == ':' ? 1 : 0;
    const std::size_t next = end;
    const bool tied =
        (begin > 0 && (is_number_letter(text[begin - 1]) || text[begin - 1] == '_')) ||
        (end < text.size() && (is_number_letter(text[end]) || text[end] == '_'));
    while (end > begin && (text[end - 1] == '.' ||
                           (text[end - 1] == ':' && !(end - begin >= 2 && text[end - 2] == ':'))))
      --end;
    if (!tied && colons >= 2 && is_ipv6(text.substr(begin, end - begin)))
      out.push_back({begin, end});
    begin = next;
  }
  return out;
}

TextSpans scan_ibans(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i + 15 <= text.size(); ++i) {
    const auto upper = [&](std::size_t k) { return text[k] >= 'A' && text[k] <= 'Z'; };
    if (!upper(i) || !upper(i + 1) || !is_number_digit(text[i + 2]) ||
        !is_number_digit(text[i + 3]))
      continue;
    if (i > 0 && (is_number_letter(text[i - 1]) || is_number_digit(text[i - 1]))) continue;
    std::string account;
    std::size_t end = i;
    std::size_t best = i;
    while (end < text.size() && account.size() < 34) {
      if (upper(end) || is_number_digit(text[end])) {
        account += text[end++];
      } else if (text[end] == ' ' && account.size() % 4 == 0 && end + 1 < text.size() &&
                 (upper(end + 1) || is_number_digit(text[end + 1]))) {
        ++end;
        continue;
      } else {
        break;
      }
      const bool whole =
          end >= text.size() || (!is_number_letter(text[end]) && !is_number_digit(text[end]));
      if (!whole || account.size() < 15) continue;
      unsigned rest = 0;
      for (std::size_t k = 0; k < account.size(); ++k) {
        const char c = account[(k + 4) % account.size()];
        rest = is_number_digit(c) ? (rest * 10 + static_cast<unsigned>(c - '0')) % 97
                                  : (rest * 100 + static_cast<unsigned>(c - 'A' + 10)) % 97;
      }
      if (rest == 1) best = end;
    }
    if (best > i) {
      out.push_back({i, best});
      i = best - 1;
    }
  }
  return out;
}

TextSpans scan_cards(std::string_view text) {
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_number_digit(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    std::string digits;
    char mark = 0;
    std::size_t last_mark = 0;
    for (std::size_t k = i; k < text.size() && digits.size() < 20; ++k) {
      if (is_number_digit(text[k])) {
        digits += text[k];
        end = k + 1;
      } else if ((text[k] == ' ' || text[k] == '-') && digit_at(text, k + 1) &&
                 (mark == 0 || mark == text[k]) && digits.size() - last_mark >= 4) {
        mark = text[k];
        last_mark = digits.size();
      } else {
        break;
      }
    }
    const bool tied = is_tied_before(text, i) || is_tied_behind(text, end) || digit_at(text, end);
    const bool known = digits.starts_with('4') || (digits >= "51" && digits < "56") ||
                       (digits >= "2221" && digits < "2721") || digits.starts_with("34") ||
                       digits.starts_with("37") || digits.starts_with("6011") ||
                       digits.starts_with("65") || (digits >= "3528" && digits < "359");
    unsigned sum = 0;
    for (std::size_t k = 0; k < digits.size(); ++k) {
      unsigned d = static_cast<unsigned>(digits[digits.size() - 1 - k] - '0');
      if (k % 2 == 1) d = d * 2 > 9 ? d * 2 - 9 : d * 2;
      sum += d;
    }
    if (!tied && known && digits.size() >= 13 && digits.size() <= 19 && sum % 10 == 0)
      out.push_back({i, end});
    i = end;
    while (digit_at(text, i)) ++i;
  }
  return out;
}

TextSpans scan_keys(std::string_view text) {
  struct Form {
    std::string_view start;
    std::size_t at_least, at_most;  // characters behind the start
    std::string_view more;          // signs beside letters and digits
  };
  static constexpr Form kForms[] = {
      {"AKIA", 16, 16, ""},          {"ghp_", 36, 36, ""},    {"gho_", 36, 36, ""},
      {"github_pat_", 60, 100, "_"}, {"xoxb-", 20, 100, "-"}, {"xoxp-", 20, 100, "-"},
      {"sk_live_", 24, 60, ""},      {"AIza", 35, 35, "-_"},  {"eyJ", 40, 4096, "-_."}};
  constexpr std::string_view kPemBegin = "-----BEGIN ";
  TextSpans out;
  for (std::size_t i = 0; i < text.size();) {
    if (std::string_view("AgxsEe-").find(text[i]) == std::string_view::npos) {
      ++i;
      continue;
    }
    std::size_t end = i;
    const bool tied = i > 0 && (is_number_letter(text[i - 1]) || is_number_digit(text[i - 1]));
    for (const Form& form : kForms) {
      if (tied || end > i || !text.substr(i).starts_with(form.start)) continue;
      std::size_t k = i + form.start.size();
      std::size_t stops = 0;
      while (k < text.size() && k - i - form.start.size() <= form.at_most &&
             (is_number_letter(text[k]) || is_number_digit(text[k]) ||
              form.more.find(text[k]) != std::string_view::npos))
        stops += text[k++] == '.' ? 1 : 0;
      const std::size_t length = k - i - form.start.size();
      const bool token = form.start != "eyJ" || stops == 2;
      if (length >= form.at_least && length <= form.at_most && token) end = k;
    }
    if (end == i && text[i] == '-' && text.substr(i).starts_with(kPemBegin)) {
      const std::string_view head = text.substr(i, 80);
      const std::size_t key = head.find("PRIVATE KEY-----");
      const std::size_t close = key == std::string_view::npos
                                    ? std::string_view::npos
                                    : text.substr(i, 16384).find("-----END ");
      if (close != std::string_view::npos) {
        const std::size_t last = text.substr(0, i + 16384 + 64).find("-----", i + close + 9);
        if (last != std::string_view::npos) end = last + 5;
      }
    }
    if (end > i) {
      out.push_back({i, end});
      i = end;
    } else {
      ++i;
    }
  }
  return out;
}

}  // namespace sx
