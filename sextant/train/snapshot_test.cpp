#include "sextant/train/snapshot.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "sextant/nn/testing.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

constexpr const char* kFrozen[] = {"layers.0.attention.wq.weight", "norm.weight"};

ParallelModel make_model(Communicator& world, Preset preset, std::uint64_t seed) {
  ParallelModel model;
  model.decoder = std::make_unique<Decoder>(testing::tiny_llama());
  for (const char* name : kFrozen) model.decoder->parameter(name).trainable = false;
  model.comms = std::make_unique<DataComms>(world, 1, world.degree());
  model.engine =
      std::make_unique<Engine>(*model.decoder, *model.comms, Policy{.preset = preset}, c10::kFloat);
  model.engine->init_parameters(seed);
  std::vector<OptimParam> params;
  for (const OwnedPart& part : model.engine->owned()) {
    params.push_back(
        {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
  }
  model.optimizer = std::make_unique<AdamW>(AdamWOptions{}, std::move(params));
  return model;
}

// What does not train is part of the model all the same, whoever holds it.
TEST(Snapshot, FrozenParametersAreSavedAndLoaded) {
  for (const Preset preset : {Preset::kDdp, Preset::kZero1, Preset::kFsdp1, Preset::kFsdp2}) {
    const TempDir root;
    rank_test(2, [&](Communicator& world) {
      const ParallelModel saved = make_model(world, preset, 1);
      CheckpointContent content;
      content.step = 3;
      content.model_parts = saved.parameters();
      content.optim_parts = saved.optimizer_state();
      const auto report = save_checkpoint(root.path(), content, world);
      ASSERT_TRUE(report.ok()) << report.error().to_string();
      const auto checkpoint = Checkpoint::open(report->path);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();

      const ParallelModel loaded = make_model(world, preset, 2);
      const auto load = checkpoint->load_parts(loaded.parameters());
      ASSERT_TRUE(load.ok()) << load.error().to_string();
      loaded.engine->publish();
      for (Parameter* parameter : loaded.decoder->parameters()) {
        EXPECT_TRUE(at::equal(loaded.engine->whole_parameter(parameter->fqn),
                              saved.engine->whole_parameter(parameter->fqn)))
            << parameter->fqn;
      }
    });
  }
}

TEST(TrainProgress, CountsSkippedStepsInAllAndInARow) {
  TrainProgress progress;
  std::vector<std::int64_t> in_row;
  for (const bool skipped : {true, true, false, true, false, false}) {
    progress.add_step(64, skipped);
    in_row.push_back(progress.skipped_in_row);
  }
  EXPECT_EQ(in_row, (std::vector<std::int64_t>{1, 2, 0, 1, 0, 0}));
  EXPECT_EQ(progress, (TrainProgress{.step = 6, .tokens = 384, .skipped_steps = 3}));
}

TEST(TrainProgress, OverflowsOfTheLossScaleAreNoRow) {
  TrainProgress progress;
  progress.add_step(64, true);
  progress.add_step(64, false, /*overflow=*/true);
  EXPECT_EQ(progress,
            (TrainProgress{.step = 2, .tokens = 128, .skipped_steps = 2, .skipped_in_row = 1}));
}

}  // namespace
}  // namespace sx
