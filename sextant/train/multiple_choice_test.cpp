#include "sextant/train/multiple_choice.h"

#include <ATen/ops/log_softmax.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sextant/dist/threads.h"
#include "sextant/nn/testing.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using ::testing::HasSubstr;

ModelShape byte_model() {
  ModelShape shape = sx::testing::tiny_llama();
  shape.vocab_size = 257;
  return shape;
}

std::vector<ChoiceItem> items_of(const std::string& lines, std::int64_t positions = 32) {
  const TempDir dir;
  EXPECT_TRUE(write_file_atomic(dir / "c.jsonl", lines).ok());
  return read_choice_items(dir / "c.jsonl", Tokenizer::bytes(), positions).value();
}

const char* const kLines =
    "{\"context\":\"ab \",\"choices\":[\"c\",\"de\"],\"answer\":1}\n"
    "\n"
    "{\"context\":\"\",\"choices\":[\"xyz\",\"\xc3\xa4\"],\"answer\":\"xyz\"}\n"
    "{\"context\":\"q\",\"choices\":[\"1\",\"22\",\"333\"],\"answer\":0}\n";

TEST(MultipleChoice, PairsAreEncodedTogether) {
  const auto items = items_of(kLines);
  ASSERT_EQ(items.size(), 3u);
  const auto& first = items[0].choices[1];
  EXPECT_EQ(first.tokens, (std::vector<std::int32_t>{'a', 'b', ' ', 'd', 'e'}));
  EXPECT_EQ(first.counted, 3);  // the blank counts as the choice's
  EXPECT_EQ(first.characters, 2);
  const auto& empty = items[1].choices[1];
  EXPECT_EQ(empty.tokens, (std::vector<std::int32_t>{256, 0xc3, 0xa4}));
  EXPECT_EQ(empty.counted, 2);
  EXPECT_EQ(empty.characters, 1);
  EXPECT_EQ(items[1].answer, 0);
  const auto cut = items_of("{\"context\":\"abcdef\",\"choices\":[\"xy\"],\"answer\":0}\n", 4);
  EXPECT_EQ(cut[0].choices[0].tokens, (std::vector<std::int32_t>{'d', 'e', 'f', 'x', 'y'}));
}

TEST(MultipleChoice, WrongLinesAreErrorsWithTheLine) {
  const TempDir dir;
  for (const char* line :
       {"7", "{\"context\":1,\"choices\":[\"a\"],\"answer\":0}",
        "{\"context\":\"\",\"choices\":[],\"answer\":0}",
        "{\"context\":\"\",\"choices\":[\"a\"],\"answer\":1}",
        "{\"context\":\"\",\"choices\":[\"a\"],\"answer\":-1}",
        "{\"context\":\"\",\"choices\":[\"a\"],\"answer\":\"b\"}",
        "{\"context\":\"\",\"choices\":[3],\"answer\":0}",
        "{\"context\":\"x\",\"choices\":[\"\"],\"answer\":0}", "{\"context\":\"\"}"}) {
    const std::string good = "{\"context\":\"x\",\"choices\":[\"a\"],\"answer\":0}\n";
    ASSERT_TRUE(write_file_atomic(dir / "c.jsonl", good + line + "\n").ok());
    const auto items = read_choice_items(dir / "c.jsonl", Tokenizer::bytes(), 32);
    ASSERT_FALSE(items.ok()) << line;
    EXPECT_EQ(items.error().kind, ErrorKind::kCorrupt) << line;
    EXPECT_THAT(items.error().message, HasSubstr("line 2")) << line;
  }
  ASSERT_TRUE(write_file_atomic(dir / "c.jsonl", "\n").ok());
  EXPECT_FALSE(read_choice_items(dir / "c.jsonl", Tokenizer::bytes(), 32).ok());
}

ChoiceScores score(std::int64_t ranks, std::int64_t rows, const std::vector<ChoiceItem>& items) {
  ChoiceScores result;
  const Recipe recipe;
  run_ranks(ranks, [&](Communicator& world) {
    const auto model = sx::testing::make_decoder(byte_model(), c10::kFloat);
    StepRecorder recorder;
    RunContext run{recipe, world, recorder};
    ChoiceScores own = score_choices(run, *model, items, rows);
    if (world.coord() == 0) result = std::move(own);
  });
  return result;
}

// The sum of log softmax over the choice's tokens, one choice at a time.
TEST(MultipleChoice, ScoresEqualThePlainFormula) {
  const auto items = items_of(kLines);
  const ChoiceScores scores = score(1, 3, items);
  const c10::AutoGradMode no_grad(false);
  const auto model = sx::testing::make_decoder(byte_model(), c10::kFloat);
  std::int64_t correct = 0, correct_normalised = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::int64_t best = 0, best_normalised = 0;
    std::vector<double> sums;
    for (std::size_t c = 0; c < items[i].choices.size(); ++c) {
      const auto& choice = items[i].choices[c];
      const std::vector<std::int64_t> ids(choice.tokens.begin(), choice.tokens.end());
      const auto n = static_cast<std::int64_t>(ids.size());
      const at::Tensor logits = model->forward({sx::testing::long_tensor(ids, {1, n}), {}, {}});
      const at::Tensor log_p =
          at::log_softmax(logits[0].narrow(1, 0, 257).to(c10::kDouble), 1, c10::kDouble);
      double sum = 0;
      for (std::int64_t t = n - choice.counted; t < n; ++t)
        sum += log_p[t - 1][ids[static_cast<std::size_t>(t)]].item<double>();
      EXPECT_NEAR(scores.log_likelihoods[i][c], sum, 1e-4 * std::abs(sum));
      sums.push_back(sum);
      const auto at = [&](std::int64_t k) {
        return sums[static_cast<std::size_t>(k)] /
               static_cast<double>(items[i].choices[static_cast<std::size_t>(k)].characters);
      };
      if (sum > sums[static_cast<std::size_t>(best)]) best = static_cast<std::int64_t>(c);
      if (at(static_cast<std::int64_t>(c)) > at(best_normalised))
        best_normalised = static_cast<std::int64_t>(c);
    }
    correct += best == items[i].answer ? 1 : 0;
    correct_normalised += best_normalised == items[i].answer ? 1 : 0;
  }
  EXPECT_EQ(scores.correct, correct);
  EXPECT_EQ(scores.correct_normalised, correct_normalised);
  EXPECT_EQ(choice_summary(scores)["items"], 3);
  const std::string lines = choice_lines(items, scores);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
}

TEST(MultipleChoice, TheSameBitsOnAnyNumberOfRanks) {
  const auto items = items_of(kLines);
  const ChoiceScores one = score(1, 2, items);
  for (const std::int64_t ranks : {2, 3, 5}) {
    EXPECT_EQ(score(ranks, 2, items).log_likelihoods, one.log_likelihoods) << ranks;
  }
}

}  // namespace
}  // namespace sx
