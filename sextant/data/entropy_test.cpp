#include "sextant/data/entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sextant/data/demo_text.h"
#include "sextant/data/token_source.h"

namespace sx {
namespace {

TEST(Entropy, UniformTokensHaveTheLogOfTheirNumber) {
  std::vector<std::int32_t> tokens{0};
  for (int i = 0; i < 400; ++i) tokens.push_back(i % 4);
  const auto heldout = make_memory_source(tokens, {});
  const EntropyReport report = measure_entropy(*heldout, *heldout, 4).value();
  EXPECT_EQ(report.tokens, 400u);
  EXPECT_NEAR(report.unigram_nats, std::log(4.0), 1e-12);
}

TEST(Entropy, OneTokenHasNone) {
  const auto heldout = make_memory_source(std::vector<std::int32_t>(100, 3), {});
  EXPECT_EQ(measure_entropy(*heldout, *heldout, 4)->unigram_nats, 0.0);
}

// Training 0 1 0 1 0, held out 0 1 0, V = 2, by hand: p1(0) = 4/7, p1(1) = 3/7; each token has one
// follower seen twice, so p2(1|0) = (2 + 3/7) / 3 and p2(0|1) = (2 + 4/7) / 3.
TEST(Entropy, BigramByHand) {
  const auto train = make_memory_source({0, 1, 0, 1, 0}, {});
  const auto heldout = make_memory_source({0, 1, 0}, {});
  const EntropyReport report = measure_entropy(*train, *heldout, 2).value();
  EXPECT_NEAR(report.bigram_nats, -(std::log(17.0 / 21) + std::log(18.0 / 21)) / 2, 1e-12);
  EXPECT_NEAR(report.unigram_cross_nats, -(std::log(3.0 / 7) + std::log(4.0 / 7)) / 2, 1e-12);
  EXPECT_NEAR(report.unigram_nats, std::log(2.0), 1e-12);
}

// A token never seen as a predecessor falls back to the unigram model; probabilities of all
// successors sum to one.
TEST(Entropy, ProbabilitiesSumToOne) {
  const std::int32_t vocab = 6;
  const auto train = make_memory_source({0, 1, 2, 0, 1, 3, 0, 0, 2}, {});
  for (std::int32_t previous = 0; previous < vocab; ++previous) {
    double sum = 0;
    for (std::int32_t next = 0; next < vocab; ++next) {
      const auto pair = make_memory_source({previous, next}, {});
      sum += std::exp(-measure_entropy(*train, *pair, vocab)->bigram_nats);
    }
    EXPECT_NEAR(sum, 1.0, 1e-12) << previous;
  }
}

TEST(Entropy, RefusesWhatItCannotMeasure) {
  const auto one = make_memory_source({1}, {});
  const auto large = make_memory_source({1, 9}, {});
  EXPECT_EQ(measure_entropy(*one, *one, 4).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(measure_entropy(*one, *large, 4).error().kind, ErrorKind::kInvalid);
}

TEST(DemoText, IsTheSameEveryTimeAndHasStructureToLearn) {
  EXPECT_EQ(demo_document(0, 5), demo_document(0, 5));
  EXPECT_NE(demo_document(0, 5), demo_document(0, 6));
  EXPECT_NE(demo_document(0, 5), demo_document(1, 5));
  const auto documents = demo_documents(0, 300000);
  std::vector<std::int32_t> tokens;
  for (const std::string& text : documents) {
    EXPECT_GE(text.size(), 200u);
    EXPECT_LE(text.size(), 2500u);
    for (const char c : text) {
      ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
      tokens.push_back(c);
    }
  }
  const std::size_t half = tokens.size() / 2;
  const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(half);
  const auto train = make_memory_source(std::vector<std::int32_t>(tokens.begin(), at), {});
  const auto heldout = make_memory_source(std::vector<std::int32_t>(at, tokens.end()), {});
  const EntropyReport report = measure_entropy(*train, *heldout, 256).value();
  EXPECT_GT(report.unigram_nats, 2.5);
  EXPECT_LT(report.bigram_nats, report.unigram_nats - 0.5);
}

}  // namespace
}  // namespace sx
