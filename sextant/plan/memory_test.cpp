#include "sextant/plan/memory.h"

#include <gtest/gtest.h>

#include <random>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// n units of one matrix of `elements` each.
std::vector<DpUnit> equal_units(std::int64_t n, std::int64_t elements) {
  std::vector<DpUnit> units;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string name = "u" + std::to_string(i);
    units.push_back({name, {{name + ".weight", {elements / 64, 64}}}});
  }
  return units;
}

DpMemory predict(const std::vector<DpUnit>& units, const DpChoice& choice) {
  return predict_dp_memory(make_dp_plan(units, choice));
}

TEST(DpMemory, BytesPerParameterThatPapersPrint) {
  DpChoice choice{.preset = DpPreset::kDdp, .num_shards = 8};
  choice.bytes = {.param = 2, .reduce = 4, .main = 4, .moments = 8};
  EXPECT_EQ(state_bytes_per_param(choice), 18);
  choice.preset = DpPreset::kZero1;
  EXPECT_EQ(state_bytes_per_param(choice), 7.5);  // 6 + 12/8
  choice.preset = DpPreset::kZero2;
  EXPECT_EQ(state_bytes_per_param(choice), 2 + 16.0 / 8);
  choice.preset = DpPreset::kFsdp2;
  EXPECT_EQ(state_bytes_per_param(choice), 16.0 / 8);
  // fp32: 16, and 8 + 8/d.
  choice.bytes = {.param = 4, .reduce = 4, .main = 4, .moments = 8};
  choice.preset = DpPreset::kDdp;
  EXPECT_EQ(state_bytes_per_param(choice), 16);
  choice.preset = DpPreset::kZero1;
  EXPECT_EQ(state_bytes_per_param(choice), 8 + 8.0 / 8);
}

TEST(DpMemory, PersistentBlocksAreTheStates) {
  const std::int64_t each = 1 << 16;
  const auto units = equal_units(6, each);
  for (const DpPreset preset :
       {DpPreset::kDdp, DpPreset::kZero1, DpPreset::kZero2, DpPreset::kFsdp1, DpPreset::kFsdp2}) {
    for (const std::int64_t param_bytes : {2, 4}) {
      DpChoice choice{.preset = preset, .num_shards = 8};
      choice.bytes.param = param_bytes;
      const double predicted =
          static_cast<double>(predict(units, choice).persistent_total()) / (6.0 * each);
      EXPECT_EQ(predicted, state_bytes_per_param(choice)) << to_string(preset) << param_bytes;
    }
  }
}

TEST(DpMemory, TransientMemoryOfShardedUnitsDoesNotGrowWithDepth) {
  const std::int64_t each = 1 << 16;
  const auto transient = [&](std::int64_t depth, Release release) {
    DpChoice choice{.preset = DpPreset::kFsdp1, .num_shards = 8, .release = release};
    const DpMemory memory = predict(equal_units(depth, each), choice);
    return memory.states.bytes - memory.persistent_total();
  };
  const std::int64_t bytes = each * 4;
  // Two units whole (the one in use and the next), the gradients of one unit that are reduced and
  // of one that come in.
  EXPECT_EQ(transient(8, Release::kAfterUse), 2 * bytes + 2 * bytes);
  EXPECT_EQ(transient(32, Release::kAfterUse), transient(8, Release::kAfterUse));
  EXPECT_GT(transient(32, Release::kAfterBackward), 30 * bytes);
}

TEST(DpMemory, FetchingAheadCostsWhatItHolds) {
  const std::int64_t each = 1 << 16;
  DpChoice choice{.preset = DpPreset::kFsdp1, .num_shards = 4};
  const std::int64_t ahead = predict(equal_units(8, each), choice).states.bytes;
  choice.prefetch_bytes = 0;
  const std::int64_t none = predict(equal_units(8, each), choice).states.bytes;
  EXPECT_EQ(ahead - none, each * 4);
  choice.overlap_reduce = false;
  EXPECT_EQ(none - predict(equal_units(8, each), choice).states.bytes, each * 4);
}

TEST(DpMemory, OneReplicaBufferWhateverTheDepth) {
  const std::int64_t each = 1 << 16;
  DpChoice choice{.preset = DpPreset::kFsdp1, .num_replicas = 2, .num_shards = 4};
  choice.bytes.reduce = 2;
  const DpMemory shallow = predict(equal_units(4, each), choice);
  const DpMemory deep = predict(equal_units(40, each), choice);
  EXPECT_EQ(deep.states.bytes - deep.persistent_total(),
            shallow.states.bytes - shallow.persistent_total());
}

TEST(DpMemory, SummedLocallyOverMicrobatchesKeepsAllGradients) {
  const std::int64_t each = 1 << 14, depth = 10;
  DpChoice choice{
      .preset = DpPreset::kFsdp1, .num_shards = 4, .microbatches = 2, .sum = MicrobatchSum::kLocal};
  const DpMemory memory = predict(equal_units(depth, each), choice);
  EXPECT_GE(memory.states.of(DpBox::kGradUnsharded), depth * each * 4);
}

TEST(DpMemory, DecoderUnits) {
  const ModelShape shape = shape_preset("gpt2-124m").value();
  const std::vector<DpUnit> units = decoder_units(shape);
  EXPECT_EQ(units.front().name, "tok_embeddings");
  EXPECT_EQ(units.back().name, "root");
  std::int64_t total = 0;
  for (const DpUnit& unit : units) {
    for (const UnitParam& param : unit.params) total += param.num_elements();
  }
  std::int64_t expected = 0;
  for (const ParamInfo& info : inventory(shape)) expected += info.num_elements;
  EXPECT_EQ(total, expected);
}

// A state that is cut over more ranks never takes more; a peak is never below what persists.
TEST(DpMemoryProperty, MoreShardsNeverTakeMore) {
  constexpr std::uint64_t kSeed = 12;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const auto units = equal_units(1 + static_cast<std::int64_t>(random() % 6),
                                   std::int64_t{1} << (13 + random() % 3));
    DpChoice choice;
    choice.preset = static_cast<DpPreset>(random() % 5);
    choice.num_replicas = 1 + static_cast<std::int64_t>(random() % 2);
    choice.microbatches = 1 + static_cast<std::int64_t>(random() % 3);
    choice.release = static_cast<Release>(random() % 5);
    choice.keep_ways = 2;
    choice.keep_bytes = 1 << 18;
    choice.sum = static_cast<MicrobatchSum>(random() % 3);
    choice.bytes.param = 2 << random() % 2;
    choice.layout = random() % 2 == 0 ? std::optional(LayoutKind::kFlat) : std::nullopt;
    std::int64_t before = 0;
    for (const std::int64_t shards : {8, 4, 2, 1}) {
      choice.num_shards = shards;
      const DpMemory memory = predict(units, choice);
      EXPECT_GE(memory.states.bytes, memory.persistent_total());
      EXPECT_GE(memory.allocated.bytes, memory.states.bytes);
      EXPECT_GE(memory.persistent_total(), before);
      before = memory.persistent_total();
      std::int64_t at_peak = 0;
      for (const std::int64_t bytes : memory.states.boxes) at_peak += bytes;
      EXPECT_EQ(at_peak, memory.states.bytes);
      EXPECT_FALSE(memory.states.moment.empty());
    }
  }
}

}  // namespace
}  // namespace sx
