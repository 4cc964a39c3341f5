#include "sextant/token/hf_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "sextant/base/check.h"
#include "sextant/text/utf8.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/split_rule.h"

namespace sx {
namespace {

using Spans = std::vector<Pattern::Span>;

utf8proc_category_t category_of(std::uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// \w of Rust's regex crate: Alphabetic, M, Nd, Pc, Join_Control. Alphabetic is L, Nl and
// Other_Alphabetic, which beyond marks holds four ranges of symbols (Unicode 15.0, PropList.txt).
bool is_word_char(std::uint32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_space_char(std::uint32_t c) { return (unicode_class_of(c) & unicode_class::kSpace) != 0; }
bool is_numeric_char(std::uint32_t c) {
  return (unicode_class_of(c) & unicode_class::kNumber) != 0;
}
bool is_punctuation_char(std::uint32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && !is_word_char(c) ? true : c == '_';
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return true;
    default: return false;
  }
}

// Start of the last character.
std::size_t last_char(std::string_view text) {
  std::size_t at = text.size() - 1;
  for (int back = 0; back < 3 && at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
       ++back)
    --at;
  const ScannedChar c = scan_char(text, at);
  return c.valid && at + c.size == text.size() ? at : text.size() - 1;
}

// Every matching character is a span of its own.
template <class Test>
Spans char_matches(std::string_view text, Test test) {
  Spans spans;
  for (std::size_t pos = 0; pos < text.size();) {
    const ScannedChar c = scan_char(text, pos);
    if (c.valid && test(c.code_point)) spans.push_back({pos, pos + c.size});
    pos += c.size;
  }
  return spans;
}

// \w+|[^\w\s]+
Spans word_or_symbol_matches(std::string_view text) {
  const auto kind_at = [&](std::size_t pos) {
    const ScannedChar c = scan_char(text, pos);
    return !c.valid ? 2 : is_word_char(c.code_point) ? 1 : is_space_char(c.code_point) ? 0 : 2;
  };
  Spans spans;
  for (std::size_t pos = 0; pos < text.size();) {
    const int kind = kind_at(pos);
    std::size_t end = pos;
    while (end < text.size() && kind_at(end) == kind) end += scan_char(text, end).size;
    if (kind != 0) spans.push_back({pos, end});
    pos = end;
  }
  return spans;
}

// The text as matches and what lies between them, in order.
struct Stretch {
  Pattern::Span span;
  bool match = false;
};

std::vector<Stretch> tile(const Spans& matches, std::size_t size, bool invert) {
  std::vector<Stretch> tiles;
  std::size_t done = 0;
  for (const Pattern::Span& match : matches) {
    if (match.begin > done) tiles.push_back({{done, match.begin}, invert});
    tiles.push_back({match, !invert});
    done = match.end;
  }
  if (done < size) tiles.push_back({{done, size}, invert});
  return tiles;
}

Spans cut(const std::vector<Stretch>& tiles, HfSplitBehavior behavior) {
  Spans out;
  bool previous = false;
  const auto add = [&](const Stretch& tile, bool joins) {
    if (joins && !out.empty()) {
      out.back().end = std::max(out.back().end, tile.span.end);
      out.back().begin = std::min(out.back().begin, tile.span.begin);
    } else {
      out.push_back(tile.span);
    }
    previous = tile.match;
  };
  switch (behavior) {
    case HfSplitBehavior::kRemoved:
      for (const Stretch& tile : tiles) {
        if (!tile.match) out.push_back(tile.span);
      }
      break;
    case HfSplitBehavior::kIsolated:
      for (const Stretch& tile : tiles) out.push_back(tile.span);
      break;
    case HfSplitBehavior::kContiguous:
      for (const Stretch& tile : tiles) add(tile, tile.match == previous);
      break;
    case HfSplitBehavior::kMergedWithPrevious:
      for (const Stretch& tile : tiles) add(tile, tile.match && !previous);
      break;
    case HfSplitBehavior::kMergedWithNext:
      for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile)
        add(*tile, tile->match && !previous);
      std::reverse(out.begin(), out.end());
      break;
  }
  return out;
}

std::string normal_form(HfNormalizer::Kind kind, std::string_view text) {
  using Kind = HfNormalizer::Kind;
  const int form = kind == Kind::kNfc    ? UTF8PROC_COMPOSE
                   : kind == Kind::kNfkc ? UTF8PROC_COMPOSE | UTF8PROC_COMPAT
                   : kind == Kind::kNfd  ? UTF8PROC_DECOMPOSE
                                         : UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    std::size_t end = pos;
    while (end < text.size() && scan_char(text, end).valid) end += scan_char(text, end).size;
    if (end > pos) {
      utf8proc_uint8_t* made = nullptr;
      const utf8proc_ssize_t size =
          utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + pos),
                       static_cast<utf8proc_ssize_t>(end - pos), &made,
                       static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
      SX_CHECK(size >= 0, "utf8proc_map: {}", utf8proc_errmsg(size));
      out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
      std::free(made);
    }
    if (end < text.size()) out.push_back(text[end++]);  // a byte outside UTF-8
    pos = end;
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const ScannedChar c = scan_char(text, pos);
    if (!c.valid) {
      out.push_back(text[pos]);
    } else if (c.code_point == 0x130) {  // the one letter whose lower case has two characters
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<char32_t>(
                           utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code_point))));
    }
    pos += c.size;
  }
  return out;
}

Result<std::string> replace_all(const Pattern& pattern, std::string_view content,
                                std::string_view text) {
  Spans matches;
  SX_TRY_VOID(pattern.find_all(text, matches));
  std::string out;
  std::size_t done = 0;
  for (const Pattern::Span& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(content);
    done = match.end;
  }
  return out.append(text.substr(done));
}

Result<std::string> normalize_one(const HfNormalizer& step, std::string text) {
  using Kind = HfNormalizer::Kind;
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfkc:
    case Kind::kNfd:
    case Kind::kNfkd: return normal_form(step.kind, text);
    case Kind::kLowercase: return lower_case(text);
    case Kind::kPrepend: return text.empty() ? text : step.content + text;
    case Kind::kReplace: return replace_all(*step.pattern, step.content, text);
    case Kind::kStrip: {
      std::string_view rest = text;
      if (step.left) rest.remove_prefix(hf_spaces_at_start(rest));
      if (step.right) rest.remove_suffix(hf_spaces_at_end(rest));
      return std::string(rest);
    }
  }
  return text;
}

Result<Spans> split_matches(const HfPreTokenizer& step, std::string_view text) {
  Spans spans;
  if (step.rule.family() == SplitFamily::kNone || step.rule.family() == SplitFamily::kPattern) {
    SX_TRY_VOID(step.pattern->find_all(text, spans));
    return spans;
  }
  PieceSplitter splitter(step.rule);
  std::size_t begin = 0;
  SX_TRY_VOID(for_each_piece(splitter, text, [&](std::string_view piece) {
    spans.push_back({begin, begin + piece.size()});
    begin += piece.size();
  }));
  return spans;
}

struct PreText {
  std::string text;
  bool at_start = false;
};

Result<std::vector<PreText>> pre_tokenize_one(const HfPreTokenizer& step, PreText part) {
  using Kind = HfPreTokenizer::Kind;
  Spans spans;
  std::string& text = part.text;
  switch (step.kind) {
    case Kind::kByteLevel:
      if (step.add_prefix_space && !text.starts_with(' ')) text.insert(text.begin(), ' ');
      if (step.use_regex) {
        PieceSplitter splitter{SplitRule(SplitFamily::kR50k)};
        std::size_t begin = 0;
        SX_TRY_VOID(for_each_piece(splitter, text, [&](std::string_view piece) {
          spans.push_back({begin, begin + piece.size()});
          begin += piece.size();
        }));
      } else {
        spans.push_back({0, text.size()});
      }
      break;
    case Kind::kSplit: {
      SX_TRY(const Spans matches, split_matches(step, text));
      spans = cut(tile(matches, text.size(), step.invert), step.behavior);
      break;
    }
    case Kind::kDigits:
      spans =
          cut(tile(char_matches(text, is_numeric_char), text.size(), false),
              step.individual_digits ? HfSplitBehavior::kIsolated : HfSplitBehavior::kContiguous);
      break;
    case Kind::kPunctuation:
      spans = cut(tile(char_matches(text, is_punctuation_char), text.size(), false), step.behavior);
      break;
    case Kind::kWhitespace:
      spans = cut(tile(word_or_symbol_matches(text), text.size(), true), HfSplitBehavior::kRemoved);
      break;
    case Kind::kWhitespaceSplit:
      spans = cut(tile(char_matches(text, is_space_char), text.size(), false),
                  HfSplitBehavior::kRemoved);
      break;
    case Kind::kMetaspace: {
      SX_TRY(text, replace_all(Pattern::literal(" "), step.replacement, text));
      if (!text.starts_with(step.replacement) &&
          (step.prepend == HfPrependScheme::kAlways ||
           (step.prepend == HfPrependScheme::kFirst && part.at_start)))
        text.insert(0, step.replacement);
      if (step.split) {
        Spans marks;
        SX_TRY_VOID(Pattern::literal(step.replacement).find_all(text, marks));
        spans = cut(tile(marks, text.size(), false), HfSplitBehavior::kMergedWithNext);
      } else {
        spans.push_back({0, text.size()});
      }
      break;
    }
  }
  std::vector<PreText> out;
  for (const Pattern::Span& span : spans) {
    if (span.end <= span.begin) continue;
    std::string piece = text.substr(span.begin, span.end - span.begin);
    if (step.kind == Kind::kByteLevel) piece = to_byte_level(piece);
    out.push_back({std::move(piece), part.at_start && span.begin == 0});
  }
  return out;
}

// "<0xAB>"
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10)
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                                                  : 16;
    if (digit == 16) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

std::string join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

void strip_token(const HfDecoder& step, std::string& token) {
  const std::size_t width = step.content.size();
  std::string_view rest = token;
  for (std::size_t i = 0; i < step.start && rest.starts_with(step.content); ++i)
    rest.remove_prefix(width);
  for (std::size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i)
    rest.remove_suffix(width);
  token = std::string(rest);
}

// Every mark becomes a space; those of the first token fall away unless the scheme is "never".
void unmark_token(const HfDecoder& step, bool first, std::string& token) {
  std::string out;
  for (std::size_t pos = 0; pos < token.size();) {
    if (token.compare(pos, step.replacement.size(), step.replacement) == 0) {
      if (!first || step.prepend == HfPrependScheme::kNever) out += ' ';
      pos += step.replacement.size();
    } else {
      out += token[pos++];
    }
  }
  token = std::move(out);
}

}  // namespace

bool hf_keeps_ascii(const std::vector<HfNormalizer>& normalizers) {
  using Kind = HfNormalizer::Kind;
  return std::all_of(normalizers.begin(), normalizers.end(), [](const HfNormalizer& step) {
    return step.kind == Kind::kNfc || step.kind == Kind::kNfkc || step.kind == Kind::kNfd ||
           step.kind == Kind::kNfkd;
  });
}

Result<std::string> hf_normalize(const std::vector<HfNormalizer>& normalizers,
                                 std::string_view text) {
  std::string now(text);
  for (const HfNormalizer& step : normalizers) {
    SX_TRY(now, normalize_one(step, std::move(now)));
  }
  return now;
}

Result<std::vector<std::string>> hf_pre_tokenize(const std::vector<HfPreTokenizer>& steps,
                                                 std::string_view text, bool at_start) {
  std::vector<PreText> parts;
  if (!text.empty()) parts.push_back({std::string(text), at_start});
  for (const HfPreTokenizer& step : steps) {
    std::vector<PreText> next;
    for (PreText& part : parts) {
      SX_TRY(std::vector<PreText> pieces, pre_tokenize_one(step, std::move(part)));
      std::move(pieces.begin(), pieces.end(), std::back_inserter(next));
    }
    parts = std::move(next);
  }
  std::vector<std::string> out;
  out.reserve(parts.size());
  for (PreText& part : parts) out.push_back(std::move(part.text));
  return out;
}

std::string hf_decode(const std::vector<HfDecoder>& decoders, std::vector<std::string> tokens) {
  using Kind = HfDecoder::Kind;
  for (const HfDecoder& step : decoders) {
    switch (step.kind) {
      case Kind::kByteLevel:
        for (std::string& token : tokens) {
          if (auto bytes = from_byte_level(token)) token = std::move(*bytes);
        }
        tokens = {join(tokens)};
        break;
      case Kind::kByteFallback:
        for (std::string& token : tokens) {
          if (const auto byte = fallback_byte(token)) token.assign(1, *byte);
        }
        break;
      case Kind::kFuse: tokens = {join(tokens)}; break;
      case Kind::kReplace:
        for (std::string& token : tokens) {
          auto replaced = replace_all(*step.pattern, step.content, token);
          if (replaced) token = std::move(*replaced);
        }
        break;
      case Kind::kStrip:
        for (std::string& token : tokens) strip_token(step, token);
        break;
      case Kind::kMetaspace:
        for (std::size_t i = 0; i < tokens.size(); ++i) unmark_token(step, i == 0, tokens[i]);
        break;
    }
  }
  return join(tokens);
}

std::size_t hf_spaces_at_end(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t at = last_char(text.substr(0, end));
    const ScannedChar c = scan_char(text.substr(0, end), at);
    if (!c.valid || !is_space_char(c.code_point)) break;
    end = at;
  }
  return text.size() - end;
}

std::size_t hf_spaces_at_start(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    const ScannedChar c = scan_char(text, pos);
    if (!c.valid || !is_space_char(c.code_point)) break;
    pos += c.size;
  }
  return pos;
}

bool hf_ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const ScannedChar c = scan_char(text, last_char(text));
  return c.valid && is_word_char(c.code_point);
}

bool hf_starts_with_word(std::string_view text) {
  const ScannedChar c = scan_char(text, 0);
  return c.size != 0 && c.valid && is_word_char(c.code_point);
}

}  // namespace sx
