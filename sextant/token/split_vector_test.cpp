#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sextant/base/rng.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/pattern.h"
#include "sextant/token/split_rule.h"
#include "sextant/token/split_vector.h"

namespace sx {
namespace {

constexpr SplitFamily kWritten[] = {SplitFamily::kR50k, SplitFamily::kCl100k, SplitFamily::kO200k,
                                    SplitFamily::kQwen2};

std::vector<SplitLevel> levels() {
  std::vector<SplitLevel> found{SplitLevel::kPortable};
  if (best_split_level() == SplitLevel::kAvx512) found.push_back(SplitLevel::kAvx2);
  if (best_split_level() != SplitLevel::kPortable) found.push_back(best_split_level());
  return found;
}

std::vector<std::size_t> ends_by_steps(SplitFamily family, std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t pos = 0; pos < text.size(); ends.push_back(pos))
    pos = split_next(family, text, pos);
  return ends;
}

std::vector<std::size_t> ends_by_windows(SplitFamily family, std::string_view text,
                                         SplitLevel level, std::size_t places) {
  std::vector<std::size_t> ends;
  std::vector<std::uint32_t> some(places);
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t count = split_many(family, text, pos, some, level);
    EXPECT_GT(count, 0u);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) ends.push_back(pos + some[i]);
    pos = ends.back();
  }
  return ends;
}

// Characters that the rules treat differently, valid or not.
const std::vector<std::string>& traps() {
  static const std::vector<std::string> all = {"a",
                                               "b",
                                               "s",
                                               "t",
                                               "ll",
                                               "re",
                                               "ve",
                                               "A",
                                               "B",
                                               "S",
                                               "LL",
                                               "1",
                                               "22",
                                               "3456",
                                               " ",
                                               "  ",
                                               "\t",
                                               "\n",
                                               "\r",
                                               "\r\n",
                                               "'",
                                               "'s",
                                               "'S",
                                               "'LL",
                                               "\"",
                                               "!",
                                               "/",
                                               "//",
                                               "_",
                                               "-",
                                               ".",
                                               "\v",
                                               "\x1c",
                                               "\x7f",
                                               std::string(1, '\0'),
                                               "\u00e9",
                                               "\u00c9",
                                               "\u017f",
                                               "'\u017f",
                                               "\u0301",
                                               "\u6f22",
                                               "\u0660",
                                               "\u00bd",
                                               "\u00a0",
                                               "\u3000",
                                               "\u2028",
                                               "\u0085",
                                               "\u200b",
                                               "\u2019",
                                               "\U0001F44D",
                                               "\u01c5",
                                               "\u02b0",
                                               "\u2167",
                                               "\xff",
                                               "\xe6\xbc",
                                               "\x80",
                                               "\xed\xa0\x80",
                                               "\u0928\u092e\u0938\u094d",
                                               "word",
                                               "Words"};
  return all;
}

// Numbers from a named stream, one after the other.
struct Dice {
  explicit Dice(std::string_view name) : stream(20261130, name) {}
  std::size_t next_below(std::size_t n) { return stream.u64(at++) % n; }
  RandomStream stream;
  std::uint64_t at = 0;
};

std::string random_text(Dice& random, std::size_t parts) {
  std::string text;
  // Some texts keep to few kinds, so that long runs come about.
  const std::size_t kinds = 1 + random.next_below(traps().size());
  const std::size_t first = random.next_below(traps().size());
  for (std::size_t i = 0; i < parts; ++i)
    text += traps()[(first + random.next_below(kinds)) % traps().size()];
  return text;
}

TEST(SplitWindows, EqualTheStepsOnTrapTexts) {
  Dice random("split_windows");
  for (int round = 0; round < 6000; ++round) {
    const std::string text = random_text(random, 1 + random.next_below(200));
    for (const SplitFamily family : kWritten) {
      const auto wanted = ends_by_steps(family, text);
      for (const SplitLevel level : levels()) {
        ASSERT_EQ(ends_by_windows(family, text, level, 64 + random.next_below(200)), wanted)
            << to_string(family) << " " << to_string(level) << " round " << round;
      }
    }
  }
}

TEST(SplitWindows, EqualTheStepsOnTheirSource) {
  std::ifstream file(__FILE__);
  std::stringstream source;
  source << file.rdbuf();
  const std::string text = source.str();
  ASSERT_GT(text.size(), 1000u);
  for (const SplitFamily family : kWritten) {
    for (const SplitLevel level : levels())
      EXPECT_EQ(ends_by_windows(family, text, level, 256), ends_by_steps(family, text));
  }
}

TEST(SplitPatterns, EqualTheMatchersOnTrapTexts) {
  Dice random("split_patterns");
  for (const SplitFamily family : kWritten) {
    const Pattern pattern = Pattern::compile(split_pattern(family)).value();
    for (int round = 0; round < 4000; ++round) {
      std::string text, valid;
      text = random_text(random, 1 + random.next_below(40));
      for (std::size_t pos = 0; pos < text.size();) {  // an invalid byte is an edge for PCRE2
        const ScannedChar c = scan_char(text, pos);
        if (c.valid) valid += text.substr(pos, c.size);
        pos += c.size;
      }
      std::vector<Pattern::Span> spans;
      ASSERT_TRUE(pattern.find_all(valid, spans).ok());
      std::vector<std::size_t> ends;
      for (const Pattern::Span& span : spans) ends.push_back(span.end);
      ASSERT_EQ(ends, ends_by_steps(family, valid)) << to_string(family) << " round " << round;
    }
  }
}

TEST(SplitPatterns, AnyPatternTilesTheText) {
  const SplitRule rule = SplitRule::from_pattern(R"(\p{L}+|\d)").value();
  PieceSplitter splitter(rule);
  std::vector<std::string> pieces;
  ASSERT_TRUE(for_each_piece(splitter, "ab, 12\xff\xfe!c", [&](std::string_view piece) {
                pieces.emplace_back(piece);
              }).ok());
  EXPECT_EQ(pieces, (std::vector<std::string>{"ab", ", ", "1", "2", "\xff", "\xfe", "!", "c"}));
}

TEST(SplitPatterns, RefusesWhatCannotCutText) {
  EXPECT_EQ(SplitRule::from_pattern("a*").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(SplitRule::from_pattern("(").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(SplitRule::from_pattern(split_pattern(SplitFamily::kO200k)).value().family(),
            SplitFamily::kO200k);
}

}  // namespace
}  // namespace sx
