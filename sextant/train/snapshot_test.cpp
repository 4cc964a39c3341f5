#include "sextant/train/snapshot.h"

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "sextant/ckpt/saver.h"
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

/// Trainable and frozen parameters, whole, on every rank alike.
std::map<std::string, at::Tensor> whole_parameters(const ParallelModel& model) {
  std::map<std::string, at::Tensor> whole;
  for (Parameter* parameter : model.decoder->parameters())
    whole[parameter->fqn] = model.engine->whole_parameter(parameter->fqn).clone();
  return whole;
}

void expect_equal(const std::map<std::string, at::Tensor>& a,
                  const std::map<std::string, at::Tensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << what << name;
}

// Complaint 28 (torchtitan PR #4754, torchft #343): a state taken while a step runs is the state
// between two steps, and taking it changes nothing.
TEST(Snapshot, TakenInsideAStepIsTheStateBeforeItAndChangesNothing) {
  enum class Moment { kBeforeForward, kBetweenForwardAndBackward, kBetweenMicrobatches, kNever };
  constexpr Moment kMoments[] = {Moment::kNever, Moment::kBeforeForward,
                                 Moment::kBetweenForwardAndBackward, Moment::kBetweenMicrobatches};
  for (const Preset preset :
       {Preset::kDdp, Preset::kZero1, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
    const TempDir root;
    rank_test(2, [&](Communicator& world) {
      std::map<std::string, at::Tensor> undisturbed;
      for (const Moment moment : kMoments) {
        const std::string what =
            fmt::format("{}, moment {}: ", preset_row(preset).name, static_cast<int>(moment));
        ParallelModel model = make_model(world, preset, 1);
        CheckpointSaver saver(root / fmt::format("at-{}", static_cast<int>(moment)), world, {});
        model.before_update = [&] { saver.wait_copied(); };
        const auto take_at = [&](Moment now) {
          if (now != moment) return;
          CheckpointContent content;
          content.step = 1;
          content.model_parts = model.parameters();
          content.optim_parts = model.optimizer_state();
          ASSERT_TRUE(saver.start(content, CheckpointSaver::Copy::kInBackground).ok()) << what;
        };
        const auto step = [&](std::int64_t number, const std::function<void(Moment)>& at) {
          model.engine->begin_step();
          for (std::int64_t m = 0; m < 2; ++m) {
            const at::Tensor tokens = testing::random_tokens(
                fmt::format("snapshot.{}.{}.{}", number, m, world.coord()), 2, 8, 19);
            model.engine->begin_microbatch(m == 1);
            if (m == 0) at(Moment::kBeforeForward);
            const at::Tensor loss = model.decoder->loss_sum({.tokens_BS = tokens}, tokens, {});
            if (m == 0) at(Moment::kBetweenForwardAndBackward);
            model.engine->backward(loss, 1.0 / 32);
            if (m == 0) at(Moment::kBetweenMicrobatches);
          }
          model.engine->finish_grads();
          model.update(1e-2);
        };
        step(1, [](Moment) {});
        const auto before = whole_parameters(model);
        step(2, take_at);
        const auto saved = saver.wait();
        ASSERT_TRUE(saved.ok()) << what << saved.error().to_string();
        const auto after = whole_parameters(model);
        if (moment == Moment::kNever) {
          undisturbed = after;
          continue;
        }
        expect_equal(after, undisturbed, what);
        const auto checkpoint = Checkpoint::open((*saved)->path);
        ASSERT_TRUE(checkpoint.ok()) << what << checkpoint.error().to_string();
        const ParallelModel loaded = make_model(world, preset, 2);
        ASSERT_TRUE(checkpoint->load_parts(loaded.parameters()).ok()) << what;
        loaded.engine->publish();
        expect_equal(whole_parameters(loaded), before, what);
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
