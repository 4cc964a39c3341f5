#include "sextant/text/segment.h"

#include <gtest/gtest.h>

#include "sextant/text/aho_corasick.h"
#include "sextant/text/unicode.h"

namespace sx {
namespace {

std::vector<std::string> strings(const Pieces& pieces) { return {pieces.begin(), pieces.end()}; }
using Words = std::vector<std::string>;

TEST(Segment, WordsAndLinesAsPython) {
  EXPECT_EQ(strings(split_words(" a\u00A0b\x1C c\u3000\n")), (Words{"a", "b", "c"}));
  EXPECT_EQ(strings(split_lines("a\r\nb\rc\n\nd\u2028e\x0B")),
            (Words{"a", "b", "c", "", "d", "e"}));
  EXPECT_EQ(strings(split_lines("")), Words{});
  EXPECT_EQ(strings(split_newlines("a\n\nb\n")), (Words{"a", "", "b", ""}));
  EXPECT_EQ(strings(split_newline_runs("\na\n\nb\n\n\nc", 1)), (Words{"", "a", "b", "c"}));
  EXPECT_EQ(strings(split_newline_runs("a\nb\n\n\nc", 2)), (Words{"a\nb", "c"}));
  EXPECT_EQ(strings(split_fasttext("a\u00A0b c")), (Words{"a\u00A0b", "c"}));
}

TEST(Segment, AnyScript) {
  EXPECT_EQ(strings(split_any_script("It's 3,000 don’t-stop.")),
            (Words{"It's", "3,000", "don’t", "stop"}));
  EXPECT_EQ(strings(split_any_script("机器学习abc")), (Words{"机器", "学习", "abc"}));
}

TEST(Segment, SpacyEnglish) {
  const std::pair<const char*, Words> cases[] = {
      {"Don't stop, U.S.A.!", {"Do", "n't", "stop", ",", "U.S.A.", "!"}},
      {"well-known (e.g. this) 10km $5.00",
       {"well", "-", "known", "(", "e.g.", "this", ")", "10", "km", "$", "5.00"}},
      {"see http://a.test/x?y=1, or me@b.test.",
       {"see", "http://a.test/x?y=1", ",", "or", "me@b.test", "."}},
      {"wait...what", {"wait", "...", "what"}},
      {"the cat's toy", {"the", "cat", "'s", "toy"}},
      {"x=y/z 3+4 A.B end.Start",
       {"x", "=", "y", "/", "z", "3", "+", "4", "A.B", "end", ".", "Start"}},
      {"I'm they've y'all", {"I", "'m", "they", "'ve", "y'", "all"}},
      {"“Quoted,” he said.", {"“", "Quoted", ",", "”", "he", "said", "."}}};
  for (const auto& [text, words] : cases) EXPECT_EQ(strings(split_spacy_english(text)), words);
  EXPECT_EQ(count_spacy_sentences("One. Two! Three? (Four.)  Five"), 5u);
  EXPECT_EQ(count_spacy_sentences("He paid e.g. nothing. \"Good.\" Yes"), 3u);
}

TEST(Segment, Marks) {
  EXPECT_TRUE(is_terminal_punctuation(U'。'));
  EXPECT_FALSE(is_terminal_punctuation(U','));
  EXPECT_TRUE(is_peer_symbol(U','));
  EXPECT_FALSE(is_peer_symbol(U'§'));
}

TEST(Unicode, FactsAndFolding) {
  EXPECT_EQ(strip_accents("Crème Brûlée"), "Creme Brulee");
  EXPECT_EQ(lower_text("ÀİX"), "ài\u0307x");
  EXPECT_EQ(strip("\u00A0 x \x1F"), "x");
  EXPECT_TRUE(is_alnum(U'²'));
  EXPECT_EQ(count_code_points("añ€😀"), 4u);
}

TEST(AhoCorasick, FindsOverlapsInAnyCase) {
  const AhoCorasick automaton({"he", "she", "his", "hers"});
  std::vector<std::pair<std::size_t, std::size_t>> found;
  automaton.scan("usHErs",
                 [&](std::size_t word, std::size_t end) { found.emplace_back(end, word); });
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::pair<std::size_t, std::size_t>>{{4, 0}, {4, 1}, {6, 3}}));
}

}  // namespace
}  // namespace sx
