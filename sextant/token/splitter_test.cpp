#include "sextant/token/splitter.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "sextant/base/rng.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(SplitFamily family, std::string_view text) {
  Pieces pieces;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t end = split_next(family, text, pos);
    pieces.emplace_back(text.substr(pos, end - pos));
    if (end <= pos) {
      ADD_FAILURE() << "no progress at " << pos;
      break;
    }
    pos = end;
  }
  return pieces;
}

// ---- An independent reference: a backtracking matcher over the alternatives of the published
// patterns.

struct Char {
  std::string_view bytes;
  ClassedChar cls;
};
using Chars = std::vector<Char>;
using Set = std::function<bool(const Char&)>;
struct Element {
  Set set;
  std::size_t min, max;
};
struct Alternative {
  std::vector<Element> elements;
  bool not_before_non_space = false;  // (?!\S) at the end
  bool contraction_suffix = false;    // (?i:'s|...)? at the end
};

constexpr std::size_t kMany = ~std::size_t{0};

Chars chars_of(std::string_view text) {
  Chars chars;
  for (std::size_t pos = 0; pos < text.size();) {
    const ClassedChar c = class_at(text, pos);
    chars.push_back({text.substr(pos, c.size), c});
    pos += c.size;
  }
  return chars;
}

bool is_letter(const Char& c) { return c.cls.is(unicode_class::kLetter); }
bool is_number(const Char& c) { return c.cls.is(unicode_class::kNumber); }
bool is_space(const Char& c) { return c.cls.is(unicode_class::kSpace); }
bool is_newline(const Char& c) { return c.bytes == "\r" || c.bytes == "\n"; }
bool is_rest(const Char& c) { return !is_letter(c) && !is_number(c) && !is_space(c); }
bool is_lead(const Char& c) { return !is_newline(c) && !is_letter(c) && !is_number(c); }
bool is_head(const Char& c) {
  return c.cls.is(unicode_class::kUpper | unicode_class::kOtherLetter | unicode_class::kMark);
}
bool is_body(const Char& c) {
  return c.cls.is(unicode_class::kLower | unicode_class::kOtherLetter | unicode_class::kMark);
}
Set exactly(std::string text) {
  return [text](const Char& c) { return c.bytes == text; };
}
Set folded(char lower) {
  return [lower](const Char& c) {
    return c.bytes == std::string(1, lower) ||
           c.bytes == std::string(1, static_cast<char>(lower - 32)) ||
           (lower == 's' && c.bytes == "\xC5\xBF");
  };
}

std::vector<Alternative> contractions(bool fold) {
  std::vector<Alternative> found;
  for (const std::string word : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    Alternative alternative;
    alternative.elements.push_back({exactly("'"), 1, 1});
    for (const char c : word)
      alternative.elements.push_back({fold ? folded(c) : exactly(std::string(1, c)), 1, 1});
    found.push_back(alternative);
  }
  return found;
}

std::vector<Alternative> alternatives(SplitFamily family) {
  const Set space = exactly(" ");
  const Set newline_or_slash = [](const Char& c) { return is_newline(c) || c.bytes == "/"; };
  std::vector<Alternative> all;
  if (family == SplitFamily::kR50k) {
    all = contractions(false);
    all.push_back({{{space, 0, 1}, {is_letter, 1, kMany}}});
    all.push_back({{{space, 0, 1}, {is_number, 1, kMany}}});
    all.push_back({{{space, 0, 1}, {is_rest, 1, kMany}}});
  } else if (family == SplitFamily::kCl100k) {
    all = contractions(true);
    all.push_back({{{is_lead, 0, 1}, {is_letter, 1, kMany}}});
    all.push_back({{{is_number, 1, 3}}});
    all.push_back({{{space, 0, 1}, {is_rest, 1, kMany}, {is_newline, 0, kMany}}});
    all.push_back({{{is_space, 0, kMany}, {is_newline, 1, kMany}}});
  } else {
    all.push_back({{{is_lead, 0, 1}, {is_head, 0, kMany}, {is_body, 1, kMany}}, false, true});
    all.push_back({{{is_lead, 0, 1}, {is_head, 1, kMany}, {is_body, 0, kMany}}, false, true});
    all.push_back({{{is_number, 1, 3}}});
    all.push_back({{{space, 0, 1}, {is_rest, 1, kMany}, {newline_or_slash, 0, kMany}}});
    all.push_back({{{is_space, 0, kMany}, {is_newline, 1, kMany}}});
  }
  all.push_back({{{is_space, 1, kMany}}, true});
  all.push_back({{{is_space, 1, kMany}}});
  return all;
}

std::size_t match_from(const Alternative& alternative, std::size_t element, const Chars& chars,
                       std::size_t at);

std::size_t match_end(const Alternative& alternative, const Chars& chars, std::size_t at) {
  if (alternative.not_before_non_space && at < chars.size() && !is_space(chars[at])) return 0;
  if (alternative.contraction_suffix) {
    for (const Alternative& suffix : contractions(true)) {
      if (const std::size_t end = match_from(suffix, 0, chars, at); end != 0) return end;
    }
  }
  return at;
}

// End (index of a character, > 0) or 0 when there is no match; greedy, giving back one by one.
std::size_t match_from(const Alternative& alternative, std::size_t element, const Chars& chars,
                       std::size_t at) {
  if (element == alternative.elements.size()) return match_end(alternative, chars, at);
  const Element& e = alternative.elements[element];
  std::size_t most = 0;
  while (most < e.max && at + most < chars.size() && e.set(chars[at + most])) ++most;
  for (std::size_t take = most + 1; take-- > e.min;) {
    if (const std::size_t end = match_from(alternative, element + 1, chars, at + take); end != 0)
      return end;
  }
  return 0;
}

Pieces reference_split(SplitFamily family, std::string_view text) {
  const std::vector<Alternative> all = alternatives(family);
  const Chars chars = chars_of(text);
  Pieces pieces;
  for (std::size_t at = 0; at < chars.size();) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < all.size() && end <= at; ++i)
      end = match_from(all[i], 0, chars, at);
    if (end <= at) {
      ADD_FAILURE() << "the reference finds nothing";
      return pieces;
    }
    std::string piece;
    for (; at < end; ++at) piece += chars[at].bytes;
    pieces.push_back(piece);
  }
  return pieces;
}

// Characters on which rules differ: cases, marks, letters without case, digits, spaces,
// contractions, bad bytes.
const std::vector<std::string>& trap_characters() {
  static const std::vector<std::string> all = {"a",
                                               "s",
                                               "t",
                                               "L",
                                               "D",
                                               "E",
                                               "e",
                                               "\xC3\xA9" /* é */,
                                               "'",
                                               "'s",
                                               "'LL",
                                               "'",
                                               " ",
                                               " ",
                                               "\t",
                                               "\n",
                                               "\r",
                                               "\xC2\xA0",
                                               "\xC2\x85",
                                               "1",
                                               "23",
                                               "\xC2\xBD",
                                               "\xD9\xA3",
                                               "!",
                                               "/",
                                               "\xE2\x80\x99",
                                               "\xCC\x81",
                                               "_",
                                               "\xC7\x85" /* Lt */,
                                               "\xCA\xB0" /* Lm */,
                                               "\xE6\xBC\xA2" /* Lo */,
                                               "\xC5\xBF" /* long s */,
                                               "\xE2\x80\x8B" /* not a space */,
                                               "\xFF",
                                               "\xE6\xBC",
                                               "\xE3\x80\x80",
                                               "\xF0\x9F\x91\x8D"};
  return all;
}

std::string random_text(std::uint64_t seed, std::uint64_t idx) {
  const RandomStream stream(seed, "split traps", idx);
  const std::size_t length = 1 + stream.u64(0) % 24;
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    text += trap_characters()[stream.u64(i + 1) % trap_characters().size()];
  }
  return text;
}

TEST(Splitter, NamesAndPatterns) {
  for (const auto family :
       {SplitFamily::kNone, SplitFamily::kR50k, SplitFamily::kCl100k, SplitFamily::kO200k}) {
    EXPECT_EQ(parse_split_family(to_string(family)), family);
    EXPECT_EQ(family_of_pattern(split_pattern(family)), family);
  }
  EXPECT_EQ(parse_split_family("gpt2"), SplitFamily::kR50k);
  EXPECT_EQ(parse_split_family("o200k_base"), SplitFamily::kO200k);
  EXPECT_EQ(parse_split_family("p50k"), std::nullopt);
  EXPECT_EQ(family_of_pattern("\\w+"), std::nullopt);
}

TEST(Splitter, R50kByHand) {
  const auto family = SplitFamily::kR50k;
  EXPECT_EQ(split(family, "hello world"), (Pieces{"hello", " world"}));
  EXPECT_EQ(split(family, "hello  world "), (Pieces{"hello", " ", " world", " "}));
  EXPECT_EQ(split(family, "  \n\n  x"), (Pieces{"  \n\n ", " x"}));
  EXPECT_EQ(split(family, "I'm it's 's IT'S"),
            (Pieces{"I", "'m", " it", "'s", " '", "s", " IT", "'", "S"}));
  EXPECT_EQ(split(family, "x1234 ½Ⅷ٣"), (Pieces{"x", "1234", " ½Ⅷ٣"}));
  EXPECT_EQ(split(family, "a\xC2\xA0z"), (Pieces{"a", "\xC2\xA0", "z"}));
  EXPECT_EQ(split(family, "a\xE2\x80\x8Bz"), (Pieces{"a", "\xE2\x80\x8B", "z"}));
  EXPECT_EQ(split(family, "a\xFF\xFE z"), (Pieces{"a", "\xFF\xFE", " z"}));
}

TEST(Splitter, Cl100kByHand) {
  const auto family = SplitFamily::kCl100k;
  EXPECT_EQ(split(family, "a \n"), (Pieces{"a", " \n"}));
  EXPECT_EQ(split(family, "x\n "), (Pieces{"x", "\n", " "}));
  EXPECT_EQ(split(family, "\t\tif (x):\n        return 1"),
            (Pieces{"\t", "\tif", " (", "x", "):\n", "       ", " return", " ", "1"}));
  EXPECT_EQ(split(family, "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split(family, "we'LL'\xC5\xBF"), (Pieces{"we", "'LL", "'\xC5\xBF"}));
  EXPECT_EQ(split(family, "don\xE2\x80\x99t"), (Pieces{"don", "\xE2\x80\x99t"}));
}

TEST(Splitter, O200kByHand) {
  const auto family = SplitFamily::kO200k;
  EXPECT_EQ(split(family, "HELLO ABCdef helloWorld"),
            (Pieces{"HELLO", " ABCdef", " hello", "World"}));
  EXPECT_EQ(split(family,
                  "\xE6\xBC\xA2"
                  "ABC"),
            (Pieces{"\xE6\xBC\xA2", "ABC"}));
  EXPECT_EQ(split(family, "IT'S don't"), (Pieces{"IT'S", " don't"}));
  EXPECT_EQ(split(family, "bar/baz://\n"), (Pieces{"bar", "/baz", "://\n"}));
}

TEST(Splitter, EqualsBacktrackingReference) {
  const std::uint64_t seed = 20240501;
  for (const auto family : {SplitFamily::kR50k, SplitFamily::kCl100k, SplitFamily::kO200k}) {
    for (std::uint64_t i = 0; i < 6000; ++i) {
      const std::string text = random_text(seed, i);
      ASSERT_EQ(split(family, text), reference_split(family, text))
          << to_string(family) << " seed " << seed << " text " << i << ": "
          << testing::PrintToString(text);
    }
  }
}

// All words of length up to 5 over the letter classes the o200k rule tells apart.
TEST(Splitter, O200kWordsOfAllClasses) {
  const std::vector<std::string> letters = {"A", "\xC7\x85", "\xCA\xB0", "\xE6\xBC\xA2",
                                            "a", "\xCC\x81", "!"};
  for (std::size_t length = 1; length <= 5; ++length) {
    std::size_t words = 1;
    for (std::size_t i = 0; i < length; ++i) words *= letters.size();
    for (std::size_t word = 0; word < words; ++word) {
      std::string text;
      for (std::size_t i = 0, rest = word; i < length; ++i, rest /= letters.size())
        text += letters[rest % letters.size()];
      ASSERT_EQ(split(SplitFamily::kO200k, text), reference_split(SplitFamily::kO200k, text))
          << text;
    }
  }
}

TEST(UnicodeClasses, KnownCharacters) {
  using namespace unicode_class;
  EXPECT_EQ(unicode_class_of('a'), kLetter | kLower);
  EXPECT_EQ(unicode_class_of('A'), kLetter | kUpper);
  EXPECT_EQ(unicode_class_of('7'), kNumber);
  EXPECT_EQ(unicode_class_of('\n'), kSpace | kNewline);
  EXPECT_EQ(unicode_class_of(0x01C5), kLetter | kUpper);
  EXPECT_EQ(unicode_class_of(0x02B0), kLetter | kOtherLetter);
  EXPECT_EQ(unicode_class_of(0x6F22), kLetter | kOtherLetter);
  EXPECT_EQ(unicode_class_of(0x0301), kMark);
  EXPECT_EQ(unicode_class_of(0x2167), kNumber);
  EXPECT_EQ(unicode_class_of(0x180E), 0);
  EXPECT_EQ(unicode_class_of(0x200B), 0);
  EXPECT_EQ(unicode_class_of(0xFEFF), 0);
  EXPECT_EQ(unicode_class_of(0x10FFFF), 0);
  EXPECT_EQ(unicode_class_of(0x31350), kLetter | kOtherLetter);  // new in Unicode 15.0
  EXPECT_STREQ(unicode_version(), "15.0.0");
}

TEST(UnicodeClasses, WhiteSpaceIsTheWholeList) {
  std::vector<std::uint32_t> spaces;
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if ((unicode_class_of(c) & unicode_class::kSpace) != 0) spaces.push_back(c);
  }
  EXPECT_EQ(spaces, (std::vector<std::uint32_t>{
                        0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680,
                        0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                        0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}));
}

}  // namespace
}  // namespace sx
