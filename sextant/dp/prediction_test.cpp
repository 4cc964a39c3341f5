// What the planner says the engine will hold and send, against what it holds and sends. One process
// plays rank 0 of each mesh on the transport that moves nothing.
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/mean.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sextant/dist/fake.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "sextant/optim/adamw.h"
#include "sextant/plan/memory.h"
#include "sextant/plan/volume.h"
#include "sextant/tensor/memory_tracker.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

ModelShape small_shape() {
  ModelShape shape = defaults_for(Arch::kLlama);
  shape.num_layers = 6;
  shape.hidden = 64;
  shape.ffn_hidden = 192;
  shape.num_heads = shape.num_heads_kv = 4;
  shape.head_dim = 16;
  shape.vocab_size = 512;
  shape.max_positions = 16;
  return shape;
}

/// The engine's policy that means the planner's choice.
Policy policy_of(const DpChoice& choice) {
  Policy policy;
  policy.preset = *find_preset(to_string(choice.preset));
  policy.layout = choice.layout;
  policy.order = choice.flat_order ? FoldOrder::kFlat : FoldOrder::kNested;
  policy.accumulate = choice.sum == MicrobatchSum::kPreset  ? Accumulate::kAuto
                      : choice.sum == MicrobatchSum::kLocal ? Accumulate::kLocal
                                                            : Accumulate::kReduced;
  policy.optimizer_over_replicas = choice.optimizer_over_replicas;
  policy.reshard_after_forward.kind =
      choice.release == Release::kAfterUse ? Reshard::Kind::kAlways : Reshard::Kind::kNever;
  policy.reshard_after_backward = choice.release != Release::kAfterStep;
  if (choice.bytes.param == 2) policy.param_dtype = c10::kBFloat16;
  if (choice.bytes.reduce == 2) policy.reduce_dtype = c10::kBFloat16;
  policy.prefetch_bytes = choice.prefetch_bytes;
  policy.bucket_elements = choice.bucket_elements;
  policy.overlap_reduce = choice.overlap_reduce;
  policy.wire = choice.a2a_wire ? ReduceWire::kA2aFp32 : ReduceWire::kReduceDtype;
  return policy;
}

struct Measured {
  std::vector<std::int64_t> peaks;        ///< of each step, as the allocator sees them
  std::vector<std::int64_t> leased;       ///< of each step, as the engine's arena sees them
  std::vector<std::int64_t> allocations;  ///< in each step
  std::int64_t wire_bytes = 0;            ///< of the last step
};

/// Steps of the engine and AdamW as rank 0 sees them.
Measured run(const ModelShape& shape, const DpChoice& choice) {
  constexpr int kSteps = 4;
  prepare_rank_thread({});
  install_memory_tracker();
  const auto counter = std::make_shared<MemoryCounter>();
  const MemoryAccount account(counter);
  Communicator world = fake_world(choice.num_replicas * choice.num_shards, 0);
  DataComms comms(world, choice.num_replicas, choice.num_shards);
  Decoder model(shape);
  Engine engine(model, comms, policy_of(choice), at::kFloat);
  engine.init_parameters(1);
  std::vector<OptimParam> parts;
  for (const OwnedPart& part : engine.owned())
    parts.push_back(
        {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
  std::optional<AdamW> optimizer;
  {
    const MemoryScope scope(MemoryCategory::kMoments);
    optimizer.emplace(AdamWOptions{}, std::move(parts));
  }
  Measured measured;
  const at::Tensor tokens = at::arange(16, at::kLong).view({2, 8});
  for (int step = 0; step < kSteps; ++step) {
    counter->reset_peaks();
    engine.arena().reset_peaks();
    world.session().reset_traffic();
    const std::int64_t before = counter->read().allocations;
    engine.begin_step();
    for (std::int64_t m = 0; m < choice.microbatches; ++m) {
      engine.begin_microbatch(m + 1 == choice.microbatches);
      engine.backward(model.forward({.tokens_BS = tokens}).to(at::kFloat).square().mean(), 1.0);
    }
    engine.finish_grads();
    std::vector<at::Tensor> grads;
    for (const OwnedPart& part : engine.owned()) grads.push_back(part.grad);
    optimizer->step(grads, 1e-3);
    engine.commit();
    measured.peaks.push_back(counter->read().peak_states);
    measured.leased.push_back(engine.arena().stats().peak_total);
    measured.allocations.push_back(counter->read().allocations - before);
  }
  for (const TrafficRow& row : world.session().traffic()) {
    if (row.axis != AxisSet::world()) measured.wire_bytes += row.traffic.bytes;
  }
  return measured;
}

std::string name_of(const DpChoice& choice) {
  return fmt::format(
      "{} {}x{} {} m{} param{} reduce{} sum{} release{}{}{}{} prefetch{} overlap{}",
      to_string(choice.preset), choice.num_replicas, choice.num_shards,
      choice.layout ? to_string(*choice.layout) : "own", choice.microbatches, choice.bytes.param,
      choice.bytes.reduce, static_cast<int>(choice.sum), static_cast<int>(choice.release),
      choice.optimizer_over_replicas ? " over_replicas" : "", choice.flat_order ? " flat" : "",
      choice.a2a_wire ? " a2a" : "", choice.prefetch_bytes, choice.overlap_reduce);
}

/// Every preset on three meshes, with fp32 and bf16 parameters and one or more microbatches; then
/// one thing after the other changed.
std::vector<DpChoice> choices() {
  std::vector<DpChoice> all;
  for (const DpPreset preset :
       {DpPreset::kDdp, DpPreset::kZero1, DpPreset::kZero2, DpPreset::kFsdp1, DpPreset::kFsdp2}) {
    for (const auto& [replicas, shards] : {std::pair{1, 2}, {1, 8}, {2, 4}}) {
      for (const std::int64_t param : {4, 2}) {
        for (const std::int64_t m : {1, 2}) {
          DpChoice choice{.preset = preset,
                          .num_replicas = replicas,
                          .num_shards = shards,
                          .microbatches = m,
                          .bucket_elements = 100'000};
          choice.bytes.param = param;
          all.push_back(choice);
        }
      }
    }
  }
  const auto changed = [&](DpPreset preset, const auto& change) {
    DpChoice choice{.preset = preset,
                    .num_replicas = 2,
                    .num_shards = 4,
                    .microbatches = 2,
                    .bucket_elements = 100'000};
    change(choice);
    all.push_back(choice);
  };
  for (const DpPreset preset : {DpPreset::kFsdp1, DpPreset::kFsdp2}) {
    changed(preset, [](DpChoice& c) { c.release = Release::kAfterBackward; });
    changed(preset, [](DpChoice& c) { c.release = Release::kAfterStep; });
    changed(preset, [](DpChoice& c) { c.sum = MicrobatchSum::kLocal; });
    changed(preset, [](DpChoice& c) { c.prefetch_bytes = 0; });
    changed(preset, [](DpChoice& c) { c.prefetch_bytes = 1 << 20; });
    changed(preset, [](DpChoice& c) { c.overlap_reduce = false; });
    changed(preset, [](DpChoice& c) { c.bytes.reduce = 2; });
    changed(preset, [](DpChoice& c) { c.layout = LayoutKind::kPerParam; });
    changed(preset, [](DpChoice& c) { c.layout = LayoutKind::kBlock; });
    changed(preset, [](DpChoice& c) { c.layout = LayoutKind::kTensor; });
  }
  for (const DpPreset preset : {DpPreset::kZero1, DpPreset::kZero2, DpPreset::kFsdp1}) {
    changed(preset, [](DpChoice& c) { c.optimizer_over_replicas = true; });
    changed(preset, [](DpChoice& c) { c.flat_order = true; });
    changed(preset, [](DpChoice& c) { c.bytes.reduce = 2; });
    changed(preset, [](DpChoice& c) {
      c.bytes.reduce = 2;
      c.a2a_wire = true;
    });
    changed(preset, [](DpChoice& c) { c.layout = LayoutKind::kPerParam; });
  }
  return all;
}

TEST(Prediction, PeakAndTrafficOfEveryPreset) {
  const ModelShape shape = small_shape();
  std::vector<double> errors;
  for (const DpChoice& choice : choices()) {
    SCOPED_TRACE(name_of(choice));
    const DpPlan plan = make_decoder_plan(shape, choice);
    const DpMemory predicted = predict_dp_memory(plan);
    const Measured measured = run(shape, choice);
    const auto peak = static_cast<double>(measured.peaks.back());
    errors.push_back(std::abs(static_cast<double>(predicted.states.bytes) - peak) / peak);
    EXPECT_LE(errors.back(), 0.03)
        << "predicted " << predicted.states.bytes << " at " << predicted.states.moment
        << ", measured " << measured.peaks.back();
    // The order of units is known from the second step on; from then on every step is the same.
    for (const int step : {2, 3}) {
      EXPECT_EQ(measured.leased[step], measured.leased[1]);
      EXPECT_EQ(measured.peaks[step], measured.peaks[1]);
      EXPECT_EQ(measured.allocations[step], measured.allocations[1]);
    }
    EXPECT_EQ(static_cast<double>(measured.wire_bytes), dp_volume_bytes(plan).total());
  }
  ASSERT_GE(errors.size(), 30u);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.01);
  fmt::print(
      "{} configurations, predicted against measured peak: median {:.3f} %, highest {:.3f} %\n",
      errors.size(), 100 * errors[errors.size() / 2], 100 * errors.back());
}

TEST(Prediction, TiedHeadAndPositions) {
  ModelShape shape = small_shape();
  shape.tie_embeddings = true;
  shape.positions = Positions::kLearned;
  DpChoice choice{
      .preset = DpPreset::kZero2, .num_shards = 4, .microbatches = 2, .bucket_elements = 100'000};
  const DpPlan plan = make_decoder_plan(shape, choice);
  const Measured measured = run(shape, choice);
  const auto peak = static_cast<double>(measured.peaks.back());
  EXPECT_NEAR(static_cast<double>(predict_dp_memory(plan).states.bytes), peak, 0.03 * peak);
}

}  // namespace
}  // namespace sx
