#include "sextant/shape/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace sx {
namespace {

TEST(RopeScaling, PlainAndLinearFrequencies) {
  const auto plain = rope_frequencies(8, 10000.0, {});
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_DOUBLE_EQ(plain[0], 1.0);
  EXPECT_NEAR(plain[1], 0.1, 1e-15);
  EXPECT_NEAR(plain[3], 0.001, 1e-17);
  const auto linear =
      rope_frequencies(8, 10000.0, {.kind = RopeScalingKind::kLinear, .factor = 4.0});
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
}

// The three regions of the Llama 3.1 rule, each by its closed form.
TEST(RopeScaling, Llama3StretchesSlowPairsOnly) {
  const RopeScaling scaling{.kind = RopeScalingKind::kLlama3,
                            .factor = 8,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4,
                            .original_max_positions = 8192};
  const auto plain = rope_frequencies(128, 500000.0, {});
  const auto scaled = rope_frequencies(128, 500000.0, scaling);
  int fast = 0, between = 0, slow = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]) << i;
      ++fast;
    } else if (wavelength > 8192.0) {
      EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 8) << i;
      ++slow;
    } else {
      const double kept = (8192.0 / wavelength - 1) / 3;
      EXPECT_NEAR(scaled[i] / plain[i], (1 - kept) / 8 + kept, 1e-12) << i;
      ++between;
    }
  }
  EXPECT_GT(fast, 0);
  EXPECT_GT(between, 0);
  EXPECT_GT(slow, 0);
}

TEST(RopeScaling, RulesAreChecked) {
  EXPECT_TRUE(RopeScaling{}.validate().empty());
  EXPECT_EQ((RopeScaling{.kind = RopeScalingKind::kLinear, .factor = 0.5}.validate().size()), 1u);
  EXPECT_EQ((RopeScaling{.kind = RopeScalingKind::kLlama3,
                         .factor = std::nan(""),
                         .low_freq_factor = 4,
                         .high_freq_factor = 4,
                         .original_max_positions = 0}
                 .validate()
                 .size()),
            3u);
  EXPECT_EQ(parse_rope_scaling("llama3").value(), RopeScalingKind::kLlama3);
  EXPECT_NE(parse_rope_scaling("yarn").error().message.find("linear"), std::string::npos);
}

}  // namespace
}  // namespace sx
