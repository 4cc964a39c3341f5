#include "sextant/nn/generate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sextant/base/check.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

const std::vector<std::int32_t> kPrompt = {3, 1, 4, 1, 5};

TEST(SampleToken, GreedyTakesTheLowestIdAmongEquals) {
  EXPECT_EQ(sample_token(std::vector<double>{0, 2, 2, 1}, 0.0, 1.0, 0.9), 1);
}

TEST(SampleToken, FollowsTheDistribution) {
  // Probabilities 0.5, 0.3, 0.2, from the most likely on: borders of u at 0.5 and 0.8.
  const std::vector<double> logits = {std::log(0.3), std::log(0.2), std::log(0.5)};
  EXPECT_EQ(sample_token(logits, 1.0, 1.0, 0.499), 2);
  EXPECT_EQ(sample_token(logits, 1.0, 1.0, 0.501), 0);
  EXPECT_EQ(sample_token(logits, 1.0, 1.0, 0.799), 0);
  EXPECT_EQ(sample_token(logits, 1.0, 1.0, 0.801), 1);
}

TEST(SampleToken, TopPKeepsTheSmallestSufficientSet) {
  const std::vector<double> logits = {std::log(0.3), std::log(0.2), std::log(0.5)};
  EXPECT_EQ(sample_token(logits, 1.0, 0.4, 0.999), 2);
  EXPECT_EQ(sample_token(logits, 1.0, 0.6, 0.624), 2);  // 0.5 of 0.8
  EXPECT_EQ(sample_token(logits, 1.0, 0.6, 0.626), 0);
  EXPECT_EQ(sample_token(logits, 1.0, 0.6, 0.999), 0);
}

TEST(SampleToken, TemperatureSharpens) {
  // At temperature 1/2 the odds are squared: 0.8 = 4/5 against 1/5.
  const std::vector<double> logits = {std::log(2.0), 0.0};
  EXPECT_EQ(sample_token(logits, 0.5, 1.0, 0.79), 0);
  EXPECT_EQ(sample_token(logits, 0.5, 1.0, 0.81), 1);
  EXPECT_THROW(sample_token(logits, -1.0, 1.0, 0.5), ContractError);
  EXPECT_THROW(sample_token(logits, 1.0, 0.0, 0.5), ContractError);
}

TEST(Generate, CacheChangesNothing) {
  for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
    const auto model = testing::make_decoder(shape, c10::kDouble);
    for (const double temperature : {0.0, 1.0}) {
      SampleOptions options{
          .max_new_tokens = 20, .temperature = temperature, .top_p = 0.95, .seed = 9};
      const Generated with = generate(*model, kPrompt, options);
      options.use_cache = false;
      EXPECT_EQ(with.tokens, generate(*model, kPrompt, options).tokens);
      EXPECT_EQ(with.tokens.size(), 20u);
    }
  }
}

TEST(Generate, IsAFunctionOfTheSeed) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  SampleOptions options{.max_new_tokens = 16, .temperature = 2.0, .seed = 1};
  std::vector<std::int32_t> seen;
  const Generated first =
      generate(*model, kPrompt, options, [&](std::int32_t token) { seen.push_back(token); });
  EXPECT_EQ(first.tokens, seen);
  EXPECT_EQ(first.tokens, generate(*model, kPrompt, options).tokens);
  options.seed = 2;
  EXPECT_NE(first.tokens, generate(*model, kPrompt, options).tokens);
  for (const std::int32_t token : first.tokens) EXPECT_LT(token, 19);  // never a padding column
}

TEST(Generate, StopsForEachReason) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  SampleOptions options{.max_new_tokens = 4, .temperature = 0.0};
  const Generated some = generate(*model, kPrompt, options);
  EXPECT_EQ(some.reason, StopReason::kLength);
  options.stop_token = some.tokens[0];
  const Generated none = generate(*model, kPrompt, options);
  EXPECT_EQ(none.reason, StopReason::kStopToken);
  EXPECT_TRUE(none.tokens.empty());
  const Generated full = generate(*model, kPrompt, {.max_new_tokens = 1000, .temperature = 0.0});
  EXPECT_EQ(full.reason, StopReason::kMaxPositions);
  EXPECT_EQ(full.tokens.size(), 32u - 5u + 1u);  // the last token needs no position of its own
  EXPECT_EQ(generate(*model, kPrompt, {.max_new_tokens = 0}).tokens.size(), 0u);
}

TEST(Generate, RefusesWrongPrompts) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  EXPECT_THROW(generate(*model, {}, {}), ContractError);
  EXPECT_THROW(generate(*model, std::vector<std::int32_t>{19}, {}), ContractError);
  EXPECT_THROW(generate(*model, std::vector<std::int32_t>(33, 1), {}), ContractError);
}

}  // namespace
}  // namespace sx
