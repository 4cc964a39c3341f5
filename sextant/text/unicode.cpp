#include "sextant/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "sextant/base/check.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

CharKind kind_from_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharKind::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return CharKind::kMark;
    case UTF8PROC_CATEGORY_ND: return CharKind::kDigit;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharKind::kOtherNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return CharKind::kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return CharKind::kSymbol;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return CharKind::kSeparator;
    default: return CharKind::kOther;
  }
}

const std::array<CharKind, 128>& ascii_kinds() {
  static const std::array<CharKind, 128> kKinds = [] {
    std::array<CharKind, 128> kinds;
    for (std::size_t c = 0; c < kinds.size(); ++c)
      kinds[c] = kind_from_category(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    return kinds;
  }();
  return kKinds;
}

}  // namespace

CharKind char_kind(char32_t c) {
  if (c < 128) return ascii_kinds()[c];
  return kind_from_category(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

bool is_lower(char32_t c) {
  if (c < 128) return c >= 'a' && c <= 'z';
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL;
}

bool is_upper(char32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z';
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LU;
}

char32_t lower_code_point(char32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool is_space(char32_t c) {
  if (c < 128) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string lower_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (c < 128) {
      out += static_cast<char>(lower_code_point(c));
    } else if (c == 0x130) {
      out += "i\u0307";
    } else {
      append_utf8(out, lower_code_point(c));
    }
  }
  return out;
}

std::string strip_accents(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (c < 128) {
      out += static_cast<char>(c);
      continue;
    }
    int last_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
        UTF8PROC_DECOMPOSE, &last_class);
    SX_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
             "U+{:04X} has no decomposition of 32 characters or less",
             static_cast<std::uint32_t>(c));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
      if (utf8proc_category(static_cast<utf8proc_int32_t>(part)) != UTF8PROC_CATEGORY_MN)
        append_utf8(out, part);
    }
  }
  return out;
}

std::string_view strip_left(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t pos = begin;
    if (!is_space(next_code_point(text, pos))) break;
    begin = pos;
  }
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    std::size_t pos = last;
    if (!is_space(next_code_point(text, pos))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string_view strip(std::string_view text) { return strip_right(strip_left(text)); }

}  // namespace sx
