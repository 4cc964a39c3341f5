#include "sextant/shard/grad_scaler.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

TEST(GradScaler, GrowsAfterGoodStepsAndShrinksAfterHysteresis) {
  GradScaler scaler({.initial_scale = 8, .min_scale = 2, .growth_interval = 3, .hysteresis = 2});
  EXPECT_TRUE(scaler.update(true));
  EXPECT_TRUE(scaler.update(true));
  EXPECT_FALSE(scaler.update(false));  // the first bad step is forgiven, but begins the count anew
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 16);
  for (const double expected : {16.0, 8.0, 4.0, 2.0, 2.0}) {
    EXPECT_FALSE(scaler.update(false));
    EXPECT_EQ(scaler.scale(), expected);
  }
  GradScaler other;
  other.restore(scaler.state());
  EXPECT_EQ(other.state(), scaler.state());
  EXPECT_THROW(GradScaler({.hysteresis = 0}), ContractError);
}

TEST(GradScaler, FactorsOfTheMean) {
  const std::map<std::int64_t, std::pair<double, double>> expected = {
      {1, {1, 1}},   {2, {2, 1}}, {3, {2, 1.5}}, {4, {2, 2}}, {5, {2, 2.5}},
      {6, {4, 1.5}}, {8, {4, 2}}, {16, {4, 4}},  {64, {8, 8}}};
  for (const auto& [n, factors] : expected) {
    EXPECT_EQ(fp16_mean_factors(n).before, factors.first) << n;
    EXPECT_EQ(fp16_mean_factors(n).after, factors.second) << n;
  }
}

}  // namespace
}  // namespace sx
