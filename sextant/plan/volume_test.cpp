#include "sextant/plan/volume.h"

#include <gtest/gtest.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

DpChoice choice_of(DpPreset preset) {
  return {.preset = preset, .num_shards = 8, .microbatches = 4};
}

TEST(DpVolume, KnownAnswers) {
  const auto total = [](DpChoice choice) { return dp_volume_elements(choice, kMillion).total(); };
  EXPECT_EQ(total(choice_of(DpPreset::kDdp)), 1'750'000);
  EXPECT_EQ(total(choice_of(DpPreset::kZero1)), 1'750'000);
  EXPECT_EQ(total(choice_of(DpPreset::kZero2)), 4'375'000);
  for (const DpPreset preset : {DpPreset::kFsdp1, DpPreset::kFsdp2}) {
    DpChoice choice = choice_of(preset);
    EXPECT_EQ(total(choice), 10'500'000);
    choice.release = Release::kAfterBackward;
    EXPECT_EQ(total(choice), 7'000'000);
    choice.release = Release::kAfterStep;
    EXPECT_EQ(total(choice), 4'375'000);
    choice.sum = MicrobatchSum::kLocal;
    EXPECT_EQ(total(choice), 1'750'000);
  }
}

TEST(DpVolume, Replicas) {
  DpChoice choice{
      .preset = DpPreset::kFsdp2, .num_replicas = 2, .num_shards = 4, .microbatches = 4};
  EXPECT_EQ(dp_volume_elements(choice, kMillion).replicate, 250'000) << "one all_reduce of a shard";
  EXPECT_EQ(dp_volume_elements(choice, kMillion).reduce, 3'000'000);
  choice.optimizer_over_replicas = true;
  EXPECT_EQ(dp_volume_elements(choice, kMillion).replicate, 250'000)
      << "gradients out, parameters back";
  choice.optimizer_over_replicas = false;
  choice.flat_order = true;
  choice.microbatches = 1;
  EXPECT_EQ(dp_volume_elements(choice, kMillion).reduce, kMillion * 7 / 4);
  EXPECT_EQ(dp_volume_elements(choice, kMillion).replicate, 0);
  choice.preset = DpPreset::kDdp;
  EXPECT_EQ(dp_volume_elements(choice, kMillion).total(), 2 * kMillion * 7 / 8);
}

TEST(DpVolume, TheUnitBackwardBeginsWithIsGatheredOnce) {
  const std::vector<DpUnit> units{{"a", {{"a", {4, 64}}}}, {"b", {{"b", {2, 64}}}}};
  const DpPlan plan =
      make_dp_plan(units, {.preset = DpPreset::kFsdp1, .num_shards = 2, .microbatches = 3});
  const DpVolume bytes = dp_volume_bytes(plan);
  EXPECT_EQ(bytes.gather, (256 * 2 + 128) * 3 / 2 * 4);
  EXPECT_EQ(bytes.reduce, (256 + 128) * 3 / 2 * 4);
}

TEST(DpVolume, EachPartInItsOwnElementSize) {
  const std::vector<DpUnit> units{{"a", {{"a", {128, 2}}}}};
  DpChoice choice{.preset = DpPreset::kZero1, .num_shards = 2};
  choice.bytes = {.param = 2, .reduce = 4, .main = 4};
  const DpVolume bytes = dp_volume_bytes(make_dp_plan(units, choice));
  EXPECT_EQ(bytes.gather, 256 / 2 * 2);
  EXPECT_EQ(bytes.reduce, 256 / 2 * 4);
}

}  // namespace
}  // namespace sx
