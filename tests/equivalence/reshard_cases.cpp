#include "tests/equivalence/reshard_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sextant/ckpt/diff.h"
#include "sextant/dist/threads.h"
#include "sextant/train/parallelize.h"
#include "sextant/train/step.h"

namespace sx {
namespace {

struct LayoutCase {
  const char* zero;
  const char* layout;
  std::int64_t replicas, shards;
  bool over_replicas = false;
  std::int64_t ranks() const { return replicas * shards; }
  std::string name() const {
    return fmt::format("{} {} {}x{}{}", zero, layout, replicas, shards,
                       over_replicas ? " over replicas" : "");
  }
};

const std::vector<LayoutCase>& layouts() {
  static const std::vector<LayoutCase> all = {
      {"ddp", "bucket", 1, 1},       {"zero1", "bucket", 1, 2},    {"fsdp2", "per_param", 1, 3},
      {"fsdp1", "flat", 1, 4},       {"fsdp2", "block", 1, 6},     {"fsdp2", "tensor", 1, 8},
      {"ddp", "bucket_plain", 3, 1}, {"fsdp2", "per_param", 2, 2}, {"zero2", "bucket", 2, 3},
      {"fsdp1", "flat", 2, 4, true}, {"zero1", "per_param", 4, 2}, {"ddp", "flat", 2, 1}};
  return all;
}

Recipe recipe_of(const LayoutCase& c) {
  const auto loaded = load_recipe(
      {.preset = "debug",
       .sets = {{"training.dtype", "fp64"},
                {"training.global_batch_size", "24"},
                {"training.micro_batch_size", "1"},
                {"training.seq_len", "16"},
                {"comm.transport", c.ranks() == 1 ? "solo" : "threads"},
                {"parallelism.zero", c.zero},
                {"parallelism.dp.layout", c.layout},
                {"parallelism.dp.order", "flat"},
                {"parallelism.dp.accumulate", "local"},
                {"parallelism.dp_replicate", std::to_string(c.replicas)},
                {"parallelism.dp_shard", std::to_string(c.shards)},
                {"parallelism.optimizer_over_replicas", c.over_replicas ? "true" : "false"}}});
  for (const Diagnostic& fault : loaded.faults) ADD_FAILURE() << c.name() << fault.to_string();
  return loaded.recipe.get();
}

/// One rank of a run.
struct Rank {
  StepRecorder recorder;
  RunContext run;
  ParallelModel model;
  Loader loader;
  const TrainInputs& inputs;
  TrainProgress progress{};

  Rank(const Recipe& recipe, const TrainInputs& inputs, Communicator& world)
      : run{recipe, world, recorder},
        model(parallelize(inputs.shape, run)),
        loader(make_train_loader(inputs.data, run)),
        inputs(inputs) {}

  double step() {
    const StepResult result =
        train_step(run, model, loader, progress.step + 1, inputs.schedule.at(progress.step), {});
    progress.add_step(result.tokens, result.nonfinite);
    return result.loss;
  }
  void save(const fs::path& root) {
    const auto saved = save_checkpoint(
        root, make_snapshot(model, loader, progress, "0123456789abcdef", {}), run.world);
    EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  }
};

}  // namespace

struct ReshardCases::State {
  TempDir folder;
  TrainInputs inputs;
  std::map<int, double> next_loss;

  State() : inputs(open_train_inputs(recipe_of(layouts().front()))) {}

  fs::path root(int i) const { return folder / fmt::format("from{}", i); }
  fs::path at(int i, std::int64_t step) const { return root(i) / fmt::format("step-{:07}", step); }
  void run(int layout, const std::function<void(Rank&)>& body) const {
    const LayoutCase& c = layouts()[static_cast<std::size_t>(layout)];
    const Recipe recipe = recipe_of(c);
    run_ranks(c.ranks(),
              [&](Communicator& world) {
                Rank rank(recipe, inputs, world);
                body(rank);
              },
              {.purpose = Purpose::kReduce, .timeout = Seconds{60.0}});
  }
};

ReshardCases::ReshardCases() : state_(std::make_unique<State>()) {}
ReshardCases::~ReshardCases() = default;
int ReshardCases::num_layouts() const { return static_cast<int>(layouts().size()); }

void ReshardCases::save(int i) {
  double loss = 0;
  state_->run(i, [&](Rank& rank) {
    rank.step();
    rank.step();
    rank.save(state_->root(i));
    const double next = rank.step();
    rank.save(state_->root(i));
    if (rank.run.world.coord() == 0) loss = next;
  });
  state_->next_loss[i] = loss;
}

bool ReshardCases::move(int i, int j) {
  const LayoutCase& from = layouts()[static_cast<std::size_t>(i)];
  const LayoutCase& to = layouts()[static_cast<std::size_t>(j)];
  const std::string pair = from.name() + " to " + to.name();
  const bool same_world = from.ranks() == to.ranks();
  const TempDir again;
  double loss = 0;
  state_->run(j, [&](Rank& rank) {
    const auto checkpoint = Checkpoint::open(state_->at(i, 2));
    ASSERT_TRUE(checkpoint.ok()) << pair << ": " << checkpoint.error().to_string();
    rank.progress =
        restore_snapshot(*checkpoint, rank.model, &rank.loader, rank.run.world, CheckpointKeys{})
            .progress;
    rank.save(again.path());
    const double next = rank.step();
    if (same_world) rank.save(again.path());
    if (rank.run.world.coord() == 0) loss = next;
  });
  EXPECT_EQ(loss, state_->next_loss[i]) << pair;
  for (const std::int64_t step : {2, 3}) {
    if (step == 3 && !same_world) continue;
    const auto a = Checkpoint::open(state_->at(i, step));
    const auto b = Checkpoint::open(again / fmt::format("step-{:07}", step));
    if (!a.ok() || !b.ok()) {
      ADD_FAILURE() << pair << ", step " << step << ": a checkpoint is missing";
      continue;
    }
    const auto difference = diff_checkpoints(*a, *b);
    EXPECT_TRUE(difference.ok() && difference->same())
        << pair << ", step " << step << "\n"
        << (difference.ok() ? difference->to_text() : difference.error().to_string());
  }
  return same_world;
}

}  // namespace sx
