#include "sextant/crawl/policy.h"

#include <gtest/gtest.h>

#include "sextant/crawl/filters/rules.h"

namespace sx {
namespace {

std::string times(const std::string& piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

struct Applied {
  PolicyText page;
  PolicyTrail trail;
  Verdict verdict;
  Applied(const std::string& text, const std::vector<std::string>& policy,
          const std::string& language = "en")
      : page{text, language}, verdict(apply_policy(parse_policy(policy).value(), page, &trail)) {}
};

std::string reason_of(const std::string& text, const std::string& policy,
                      const std::string& language = "en") {
  return to_string(Applied(text, {policy}, language).verdict.reason);
}

TEST(GopherCs336, EdgesOfTheAssignment) {
  EXPECT_EQ(reason_of(times("This should definitely be a sentence that is kept by the rules, "
                            "without any doubt at all. ",
                            100),
                      "cs336"),
            "kept");
  EXPECT_EQ(reason_of("One sentence of eleven words is by far too short here.", "cs336"),
            "gopher.short");
  EXPECT_EQ(reason_of(times("The string you are reading is a long snippet of text.", 100), "cs336"),
            "kept");
  EXPECT_EQ(reason_of(times("The string you are reading is too long of a text. ", 50000), "cs336"),
            "gopher.long");
  EXPECT_EQ(
      reason_of(times("The string you are reading is an okay example of text. ", 5000), "cs336"),
      "kept");
  EXPECT_EQ(reason_of(times("the be ", 100), "cs336"), "gopher.mean_low");
  EXPECT_EQ(reason_of(times("the with ", 100), "cs336"), "kept");
  EXPECT_EQ(reason_of("the and " + times("extraordinarily extraordinarily extraordinarily "
                                         "longesest ",
                                         100),
                      "cs336"),
            "gopher.mean_high");
  EXPECT_EQ(reason_of(times("the and this is fine ", 100), "cs336"), "kept");
  EXPECT_EQ(
      reason_of(times("the line ends here...\n", 70) + times("and this does not\n", 30), "cs336"),
      "gopher.ellipsis_lines");
  EXPECT_EQ(
      reason_of(times("the line ends here...\n", 30) + times("and this does not\n", 230), "cs336"),
      "kept");
  EXPECT_EQ(reason_of(times("the and 123 123 123 123 123 123 123 123 word word ", 10), "cs336"),
            "gopher.alpha");
}

TEST(GopherPresets, CountWhatTheirProgramsCount) {
  const PolicyText page{"- The cat's #1 toy... costs $5…\n* of and that\nEND…", "en"};
  Attributes dolma;
  measure_gopher_dolma(page, dolma);
  EXPECT_EQ(dolma.get("words"), 12);
  EXPECT_EQ(dolma.get("symbol_words"), 3);  // "#1", "$5…", "END…"
  EXPECT_EQ(dolma.get("bullet_lines"), 2);
  EXPECT_EQ(dolma.get("ellipsis_lines"), 2);
  EXPECT_EQ(dolma.get("stop_words"), 3);  // "The" is not "the"
  EXPECT_EQ(dolma.get("median_word_length"), 3);
  Attributes datatrove;
  measure_gopher_datatrove(page, datatrove);
  EXPECT_EQ(datatrove.get("words"),
            18);  // - The cat 's # 1 toy ... costs $ 5 … * of and that END …
  EXPECT_EQ(datatrove.get("hashes"), 1);
  EXPECT_EQ(datatrove.get("ellipses"), 3);
  EXPECT_EQ(datatrove.get("bullet_lines"), 1);
  EXPECT_EQ(datatrove.get("stop_words"), 3);
  Attributes dclm;
  measure_gopher_dclm(page, dclm);
  EXPECT_EQ(dclm.get("counted_words"), 8);
  EXPECT_EQ(dclm.get("stop_words"), 4);
  EXPECT_EQ(dclm.get("symbols"), 4);
}

TEST(GopherSextant, SaysNothingAboutWordsOfOtherLanguages) {
  const std::string chinese = times("这是一个关于机器学习的网页，内容很长。", 110);
  EXPECT_EQ(reason_of(chinese, "gopher.quality:sextant", "zh"), "kept");
  EXPECT_EQ(reason_of(chinese, "gopher.quality:gopher-paper", "zh"), "gopher.short");
  EXPECT_EQ(reason_of(times("ไม่มีช่องว่างระหว่างคำ", 100), "gopher.quality:sextant", "th"), "kept");
  EXPECT_EQ(reason_of(times("xyzzy plugh ", 100), "gopher.quality:sextant", "en"),
            "gopher.stop_words");
  EXPECT_EQ(reason_of(times("xyzzy plugh ", 100), "gopher.quality:sextant", "cy"), "kept");
}

TEST(Repetition, DatatroveCountsLaterCopies) {
  Attributes out;
  measure_repetition_datatrove({"a b\n\na b\n\nc", "en"}, out);
  EXPECT_EQ(out.get("paragraphs"), 3);
  EXPECT_EQ(out.get("dup_paragraphs"), 1);
  EXPECT_EQ(out.get("dup_paragraph_chars"), 3);
  EXPECT_EQ(out.get("lines"), 3);
  EXPECT_EQ(out.get("chars"), 11);
  EXPECT_EQ(out.get("top2_chars"), 6);  // "a b" twice
  Attributes greedy;                    // ab cd is the same string as a bcd once joined
  measure_repetition_datatrove({"one two three four five six one two three four five", "en"},
                               greedy);
  EXPECT_EQ(greedy.get("dup5_chars"), 19);
  EXPECT_EQ(greedy.get("dup6_chars"), 0);
  Attributes joined;
  measure_repetition_datatrove({"ab c d e f a bc d e f", "en"}, joined);
  EXPECT_EQ(joined.get("dup5_chars"), 6);
  EXPECT_EQ(joined.get("top2_chars"), 6);  // "d e" and "e f" twice each: the first of them
}

TEST(Repetition, DolmaCountsAllCopies) {
  Attributes out;
  measure_repetition_dolma({"aa b\naa b\n\nc", "en"}, out);
  EXPECT_EQ(out.get("lines"), 4);
  EXPECT_EQ(out.get("dup_lines"), 2);
  EXPECT_EQ(out.get("dup_line_chars"), 8);
  EXPECT_EQ(out.get("chars"), 7);
  EXPECT_EQ(out.get("top2_chars"), 6);
}

TEST(C4, LinesGoAndPagesFallInThisOrder) {
  const std::string five = times("This is a whole sentence. ", 5) + "\n";
  const Applied kept(five + "No end mark here\nTwo words.\nYou need JavaScript for this.\n" +
                         "Read our privacy policy now.\nA fact[12] and [citation needed] more.",
                     {"c4:datatrove"});
  EXPECT_TRUE(kept.verdict.kept());
  EXPECT_EQ(kept.page.text, times("This is a whole sentence. ", 4) +
                                "This is a whole sentence.\nA fact and  more.");
  EXPECT_EQ(reason_of(five + "A bracket { in a sentence.", "c4"), "c4.curly");
  EXPECT_EQ(reason_of(five + "A bracket { in a line that falls", "c4"), "kept");
  EXPECT_EQ(reason_of(five + "A bracket { in javascript falls first.", "c4"), "kept");
  EXPECT_EQ(reason_of(five + "Some Lorem Ipsum text here.", "c4"), "c4.lorem_ipsum");
  EXPECT_EQ(reason_of("One. Two.", "c4"), "c4.few_sentences");
  EXPECT_EQ(reason_of(five + "Ends in an ellipsis...", "c4"), "kept");
  EXPECT_EQ(Applied("no mark but kept by FineWeb\n" + five, {"c4:fineweb"})
                .trail.entries[0]
                .attributes.get("sentences"),
            6);
  EXPECT_EQ(reason_of(times(times("x", 200) + "\n", 3), "c4.paragraphs:datatrove"), "kept");
  EXPECT_EQ(reason_of(times(times("x", 199) + "\n", 3), "c4.paragraphs:datatrove"),
            "c4.paragraphs");
}

TEST(Fineweb, RatiosOfLines) {
  EXPECT_EQ(reason_of(" \n ", "fineweb:datatrove"), "fineweb.empty");
  EXPECT_EQ(reason_of(times("a line of words without any mark at its very end\n", 10),
                      "fineweb:datatrove"),
            "fineweb.line_punct");
  EXPECT_EQ(reason_of("Short. \nShort one.\nAnother.", "fineweb:datatrove"), "fineweb.short_lines");
  const std::string line = "This line is longer than thirty characters.\n";
  EXPECT_EQ(reason_of(line + line, "fineweb:datatrove"), "fineweb.char_dup");
  EXPECT_EQ(reason_of(line, "fineweb:datatrove"), "kept");
}

TEST(Refinedweb, CorrectsLinesUnlessTooMuchGoes) {
  const std::string body = times("A sentence that stays where it is for good. ", 30);
  const Applied edited("SHOUTED HEADLINE IN CAPITALS\n" + body +
                           "\n3,214 likes\nsolo\nSign-in here "
                           "or there\n\n\n\nend of it",
                       {"refinedweb:dclm"});
  EXPECT_TRUE(edited.verdict.kept()) << edited.verdict.value;
  EXPECT_EQ(edited.page.text, body + "\nhere or there\n\nend of it");
  EXPECT_EQ(edited.page.edits, 4u);
  EXPECT_EQ(reason_of("ALL OF THIS IS SHOUTED\nand little is not", "refinedweb:dclm"),
            "rw.edited_share");
}

TEST(Policy, ThresholdsCanBeSetAndSwitchedOff) {
  const std::string text = times("the and word ", 10);
  EXPECT_EQ(reason_of(text, "gopher.quality:cs336"), "gopher.short");
  EXPECT_EQ(reason_of(text, "gopher.quality:cs336{min_words=30}"), "kept");
  EXPECT_EQ(reason_of(text, "gopher.quality:cs336{min_words=31}"), "gopher.short");
  EXPECT_EQ(reason_of(text, "gopher.quality:cs336{min_words=off,max_words=29}"), "gopher.long");
  EXPECT_EQ(reason_of("x", "none"), "kept");
}

TEST(Policy, WrongWordsAreNamed) {
  EXPECT_NE(parse_policy({"gofer"}).error().message.find("gopher"), std::string::npos);
  EXPECT_NE(parse_policy({"c4:datatrov"}).error().message.find("c4:datatrove"), std::string::npos);
  EXPECT_NE(parse_policy({"c4:datatrove{min_words=3}"}).error().message.find("min_sentences"),
            std::string::npos);
  EXPECT_FALSE(parse_policy({"c4:datatrove{min_sentences=}"}).ok());
  EXPECT_FALSE(parse_policy({"c4:datatrove{min_sentences=3"}).ok());
  for (const NamedPolicy& policy : named_policies())
    EXPECT_EQ(parse_policy({policy.name}).value().size(), policy.steps.size()) << policy.name;
}

TEST(Policy, LaterRulesSeeTheEditedText) {
  const std::string five = times("This is a whole sentence. ", 5);
  const Applied both("no end mark here at all\n" + five, {"c4:datatrove", "fineweb:datatrove"});
  ASSERT_EQ(both.trail.entries.size(), 2u);
  EXPECT_EQ(both.trail.entries[1].attributes.get("lines"), 1);
  EXPECT_NE(explain_policy(parse_policy({"fineweb"}).value()).find("fineweb.line_punct"),
            std::string::npos);
}

}  // namespace
}  // namespace sx
