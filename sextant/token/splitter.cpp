#include "sextant/token/splitter.h"

#include "sextant/base/check.h"
#include "sextant/token/split_runs.h"

namespace sx {
namespace {

constexpr std::string_view kR50kPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr SplitFamily kFamilies[] = {SplitFamily::kNone, SplitFamily::kR50k, SplitFamily::kCl100k,
                                     SplitFamily::kO200k, SplitFamily::kQwen2};

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

const char* to_string(SplitFamily family) {
  switch (family) {
    case SplitFamily::kNone: return "none";
    case SplitFamily::kR50k: return "r50k";
    case SplitFamily::kCl100k: return "cl100k";
    case SplitFamily::kO200k: return "o200k";
    case SplitFamily::kQwen2: return "qwen2";
    case SplitFamily::kPattern: return "pattern";
  }
  return "none";
}

std::optional<SplitFamily> parse_split_family(std::string_view name) {
  if (name.ends_with("_base")) name.remove_suffix(5);
  if (name == "gpt2") return SplitFamily::kR50k;
  if (name == "llama3") return SplitFamily::kCl100k;
  for (SplitFamily family : kFamilies) {
    if (name == to_string(family)) return family;
  }
  return std::nullopt;
}

std::string_view split_pattern(SplitFamily family) {
  switch (family) {
    case SplitFamily::kNone: return "";
    case SplitFamily::kR50k: return kR50kPattern;
    case SplitFamily::kCl100k: return kCl100kPattern;
    case SplitFamily::kO200k: return kO200kPattern;
    case SplitFamily::kQwen2: return kQwen2Pattern;
    case SplitFamily::kPattern: return "";
  }
  return "";
}

std::optional<SplitFamily> family_of_pattern(std::string_view pattern) {
  for (SplitFamily family : kFamilies) {
    if (pattern == split_pattern(family)) return family;
  }
  return std::nullopt;
}

std::size_t split_next(SplitFamily family, std::string_view segment, std::size_t pos) {
  SX_DCHECK(pos < segment.size(), "split_next at {} of {} bytes", pos, segment.size());
  switch (family) {
    case SplitFamily::kNone: return segment.size();
    case SplitFamily::kR50k: return detail::split_next_r50k(segment, pos);
    case SplitFamily::kCl100k: return detail::split_next_cl100k(segment, pos);
    case SplitFamily::kO200k: return detail::split_next_o200k(segment, pos);
    case SplitFamily::kQwen2: return detail::split_next_qwen2(segment, pos);
    case SplitFamily::kPattern: break;
  }
  SX_CHECK(false, "split_next for a pattern");
  return segment.size();
}

namespace detail {

std::size_t match_contraction_folded(std::string_view segment, std::size_t pos) {
  if (pos + 1 >= segment.size() || segment[pos] != '\'') return pos;
  const char a = lower_ascii(segment[pos + 1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
  if (pos + 2 >= segment.size()) return pos;
  const char b = lower_ascii(segment[pos + 2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
  if (segment[pos + 1] == '\xC5' && segment[pos + 2] == '\xBF') return pos + 3;
  return pos;
}

std::size_t match_space_with_newlines(std::string_view segment, std::size_t pos) {
  std::size_t end = pos, last_start = pos, after_newline = pos;
  for (ClassedChar c = class_at(segment, end); c.is(unicode_class::kSpace);
       c = class_at(segment, end)) {
    last_start = end;
    end += c.size;
    if (c.is(unicode_class::kNewline)) after_newline = end;
  }
  if (after_newline != pos) return after_newline;
  if (end == segment.size() || last_start == pos) return end;
  return last_start;
}

std::size_t match_space(std::string_view segment, std::size_t pos) {
  std::size_t end = pos, last_start = pos;
  for (ClassedChar c = class_at(segment, end); c.is(unicode_class::kSpace);
       c = class_at(segment, end)) {
    last_start = end;
    end += c.size;
  }
  if (end == segment.size() || last_start == pos) return end;
  return last_start;
}

std::size_t match_digits(std::string_view segment, std::size_t pos) {
  for (int count = 0; count < 3; ++count) {
    const ClassedChar c = class_at(segment, pos);
    if (!c.is(unicode_class::kNumber)) break;
    pos += c.size;
  }
  return pos;
}

}  // namespace detail
}  // namespace sx
