#include "sextant/schedule/stage_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/rng.h"

namespace sx {
namespace {

std::string laid(const std::string& text, std::int64_t layers, std::int64_t stages,
                 const StageCosts& costs = {}, std::int64_t mtp = 0) {
  const auto made = make_stage_layout({text, layers, mtp, stages, costs});
  return made.ok() ? to_string(*made) : made.error().message;
}

TEST(StageLayout, EvenAndAuto) {
  EXPECT_EQ(laid("even", 8, 4), "Ett|tt|tt|ttL");
  EXPECT_EQ(laid("even", 30, 4), laid("auto", 30, 4));  // elsewhere silently 28 layers
  EXPECT_EQ(laid("auto", 5, 2, {.layers = {}, .embedding = 1, .loss = 2}), "Ettt|ttL");
  EXPECT_EQ(laid("auto", 2, 4, {.layers = {}, .loss = 5}), "Et|t||L");
  EXPECT_EQ(laid("auto", 4, 1), "EttttL");
  EXPECT_EQ(laid("auto", 4, 2, {}, 1), "Ettt|tmL");
}

TEST(StageLayout, ListsAndMegatronsGrammar) {
  EXPECT_EQ(laid("3,1, 0,2", 6, 4), "Ettt|t||ttL");
  EXPECT_EQ(laid("E(t|)*3,tL", 4, 4), "Et|t|t|tL");
  const auto made = make_stage_layout({"Et*3|(tt|)*29,m|L", 61, 1, 32, {}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->size(), 32U);
  EXPECT_EQ((*made)[0], (StageContents{.embedding = true, .layers = 3}));
  for (std::size_t s = 1; s < 30; ++s) {
    EXPECT_EQ((*made)[s],
              (StageContents{.first_layer = static_cast<std::int64_t>(2 * s + 1), .layers = 2}));
  }
  EXPECT_EQ((*made)[30], (StageContents{.first_layer = 61, .mtp_layers = 1}));
  EXPECT_EQ((*made)[31], (StageContents{.first_layer = 61, .loss = true}));
}

TEST(StageLayout, OneStageTakesEveryText) {
  for (const char* text : {"even", "auto", "3,1", "Et|ttt|L"})
    EXPECT_EQ(laid(text, 4, 1), "EttttL");
}

TEST(StageLayout, FaultsAreSaid) {
  EXPECT_EQ(laid("Ett|tL", 4, 2), "stage layout: it places 3 decoder layers, the model has 4");
  EXPECT_EQ(laid("Ett|tt|L", 4, 2), "stage layout: it has 3 stages, the mesh 2");
  EXPECT_EQ(laid("tt|EttL", 4, 2), "stage layout: the embedding must come first");
  EXPECT_EQ(laid("Ett|ttEL", 4, 2), "stage layout: two embeddings");
  EXPECT_EQ(laid("EttL|tt", 4, 2), "stage layout: 't' behind the loss");
  EXPECT_EQ(laid("Ett|tt", 4, 2), "stage layout: there is no loss (L)");
  EXPECT_EQ(laid("Ett|(ttL", 4, 2), "stage layout: '(' at character 4 stays open");
  EXPECT_EQ(laid("Ett|tt)L", 4, 2), "stage layout: ')' without '(' at character 6");
  EXPECT_EQ(laid("Et*x|L", 4, 2),
            "stage layout: no number up to 1000000 behind '*' at character 2");
  EXPECT_EQ(laid("E(t*999999)*999999|L", 4, 2), "stage layout: more than 1000000 parts");
  EXPECT_EQ(laid("Ex|L", 4, 2),
            "stage layout: 'x' at character 1; known are E t m L | ( ) * and numbers behind *");
  EXPECT_EQ(laid("Ettm|ttL", 4, 2, {}, 1),
            "stage layout: a decoder layer behind a multi-token-prediction layer");
  EXPECT_EQ(laid("Ett|ttL", 4, 2, {}, 1),
            "stage layout: it places 0 multi-token-prediction layers, the model has 1");
}

/// The smallest largest stage by trying every cut.
std::int64_t brute(const std::vector<std::int64_t>& costs, std::size_t begin, std::int64_t stages,
                   std::int64_t add_first, std::int64_t add_last) {
  std::int64_t sum = add_first;
  if (stages == 1)
    return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(begin), costs.end(), sum) +
           add_last;
  std::int64_t best = INT64_MAX;
  for (std::size_t end = begin; end <= costs.size(); ++end) {
    best = std::min(best, std::max(sum, brute(costs, end, stages - 1, 0, add_last)));
    if (end < costs.size()) sum += costs[end];
  }
  return best;
}

TEST(StageLayout, AutoIsTheBestOfAllCuts) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStream random(seed, "stage_layout");
    StageCosts costs;
    const std::uint64_t layers = 1 + random.u64(0) % 8;
    const std::int64_t stages = static_cast<std::int64_t>(1 + random.u64(1) % 5);
    for (std::uint64_t i = 0; i < layers; ++i)
      costs.layers.push_back(static_cast<std::int64_t>(random.u64(10 + i) % 20));
    costs.embedding = static_cast<std::int64_t>(random.u64(2) % 20);
    costs.loss = static_cast<std::int64_t>(random.u64(3) % 30);
    const auto made =
        make_stage_layout({"auto", static_cast<std::int64_t>(layers), 0, stages, costs});
    ASSERT_TRUE(made.ok());
    std::int64_t largest = 0;
    for (const StageContents& stage : *made) {
      std::int64_t cost = (stage.embedding ? costs.embedding : 0) + (stage.loss ? costs.loss : 0);
      for (std::int64_t i = 0; i < stage.layers; ++i)
        cost += costs.layers[static_cast<std::size_t>(stage.first_layer + i)];
      largest = std::max(largest, cost);
    }
    EXPECT_EQ(largest, brute(costs.layers, 0, stages, costs.embedding, costs.loss));
  }
}

}  // namespace
}  // namespace sx
