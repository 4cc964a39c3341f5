#include "sextant/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sx {
namespace {

constexpr LrSchedule kBase{.lr = 1e-3, .total_steps = 110, .warmup_steps = 10, .min_ratio = 0.1};

LrSchedule with(LrDecay decay) {
  LrSchedule s = kBase;
  s.decay = decay;
  return s;
}

TEST(LrSchedule, WarmsUpLinearlyToThePeak) {
  const LrSchedule s = with(LrDecay::kCosine);
  EXPECT_DOUBLE_EQ(s.at(0), 1e-4);
  EXPECT_DOUBLE_EQ(s.at(4), 5e-4);
  EXPECT_DOUBLE_EQ(s.at(9), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(10), 1e-3);
}

TEST(LrSchedule, ClosedFormsAtQuarterHalfAndEnd) {
  const double lr = 1e-3, low = 0.1;
  const auto value = [&](double g) { return lr * (low + (1 - low) * g); };
  EXPECT_DOUBLE_EQ(with(LrDecay::kCosine).at(60), value(0.5));
  EXPECT_DOUBLE_EQ(with(LrDecay::kCosine).at(35), value((1 + std::sqrt(0.5)) / 2));
  EXPECT_DOUBLE_EQ(with(LrDecay::kLinear).at(35), value(0.75));
  EXPECT_DOUBLE_EQ(with(LrDecay::kLinear).at(60), value(0.5));
  EXPECT_DOUBLE_EQ(with(LrDecay::kSqrt).at(35), value(0.5));
  EXPECT_DOUBLE_EQ(with(LrDecay::kConstant).at(109), lr);
  for (const LrDecay decay : {LrDecay::kCosine, LrDecay::kLinear, LrDecay::kSqrt}) {
    EXPECT_DOUBLE_EQ(with(decay).at(110), lr * low);
    EXPECT_DOUBLE_EQ(with(decay).at(10'000), lr * low);
  }
}

TEST(LrSchedule, WarmupStableDecay) {
  LrSchedule s = with(LrDecay::kLinear);
  s.total_steps = 100;
  s.stable_ratio = 0.7;
  s.min_ratio = 0.0;
  EXPECT_DOUBLE_EQ(s.at(10), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(80), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(90), 0.5e-3);
  EXPECT_DOUBLE_EQ(s.at(100), 0.0);
}

TEST(LrSchedule, DecayStepsEndTheDecayEarly) {
  LrSchedule s = with(LrDecay::kLinear);
  s.decay_steps = 50;
  EXPECT_DOUBLE_EQ(s.at(35), 1e-3 * 0.55);
  EXPECT_DOUBLE_EQ(s.at(60), 1e-4);
  EXPECT_DOUBLE_EQ(s.at(100), 1e-4);
}

TEST(LrSchedule, NeverRisesAfterTheWarmup) {
  for (const LrDecay decay :
       {LrDecay::kCosine, LrDecay::kLinear, LrDecay::kSqrt, LrDecay::kConstant}) {
    for (std::int64_t step = 10; step < 130; ++step) {
      EXPECT_LE(with(decay).at(step + 1), with(decay).at(step)) << to_string(decay) << " " << step;
    }
  }
}

TEST(LrSchedule, ValidateReportsAllFaults) {
  EXPECT_TRUE(kBase.validate().empty());
  LrSchedule bad = kBase;
  bad.warmup_steps = 200;
  bad.min_ratio = 2;
  EXPECT_EQ(bad.validate().size(), 2u);
  LrSchedule crowded = kBase;
  crowded.stable_ratio = 0.95;
  EXPECT_EQ(crowded.validate().size(), 1u);
  EXPECT_EQ(parse_lr_decay("sqrt").value(), LrDecay::kSqrt);
  EXPECT_FALSE(parse_lr_decay("exp").ok());
}

}  // namespace
}  // namespace sx
