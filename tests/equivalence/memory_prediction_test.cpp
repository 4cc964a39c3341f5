// What the planner says a rank will take, against what it takes: decoders as they are trained, on
// rank threads, every byte that the CPU allocator hands out while a step runs.
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "sextant/optim/adamw.h"
#include "sextant/tensor/memory_tracker.h"
#include "sextant/train/memory_plan.h"
#include "tests/equivalence/rank_test.h"

#ifndef SX_MEMORY_STRIDE
#define SX_MEMORY_STRIDE 2  // every other case; the slow test takes all
#endif

namespace sx {
namespace {

struct Case {
  std::string name;
  Arch arch = Arch::kLlama;
  std::int64_t replicas = 1, shards = 1, microbatches = 1;
  Policy policy{};
  RecomputePlan recompute{};
  std::int64_t batch = 2, seq_len = 64;
  std::int64_t layers = 4, hidden = 64;
  std::int64_t vocab = 384;
};

ModelShape shape_of(const Case& test) {
  ModelShape shape = defaults_for(test.arch);
  shape.num_layers = test.layers;
  shape.hidden = test.hidden;
  shape.ffn_hidden = test.arch == Arch::kGpt2 ? 4 * test.hidden : 3 * test.hidden;
  shape.num_heads = 4;
  shape.num_heads_kv = test.arch == Arch::kGpt2 ? 4 : 2;
  shape.head_dim = test.hidden / 4;
  shape.vocab_size = test.vocab;
  shape.max_positions = test.seq_len;
  return shape;
}

struct Measured {
  MemoryNumbers steady;
  std::vector<std::int64_t> peaks;
};

/// Four steps; rank 0's memory, the last step's in full.
Measured measure(const Case& test) {
  constexpr int kSteps = 4;
  install_memory_tracker();
  Measured measured;
  rank_test(test.replicas * test.shards, [&](Communicator& world) {
    const at::Tensor tokens =
        at::remainder(at::arange(test.batch * test.seq_len, at::kLong).add(world.coord()), 97)
            .to(at::kInt)
            .view({test.batch, test.seq_len});
    const at::Tensor positions =
        at::arange(test.seq_len, at::kInt).expand({test.batch, test.seq_len}).contiguous();
    const at::Tensor documents = at::zeros({test.batch, test.seq_len}, at::kInt);
    const at::Tensor mask = at::full({test.batch, test.seq_len}, 1, at::kByte);
    const auto counter = std::make_shared<MemoryCounter>();
    const MemoryAccount account(counter);
    DataComms comms(world, test.replicas, test.shards);
    Decoder model(shape_of(test));
    model.apply(test.recompute);
    Engine engine(model, comms, test.policy, at::kFloat);
    engine.init_parameters(1);
    std::vector<OptimParam> parts;
    for (const OwnedPart& part : engine.owned()) {
      parts.push_back(
          {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
    }
    std::optional<AdamW> optimizer;
    {
      const MemoryScope scope(MemoryCategory::kMoments);
      optimizer.emplace(AdamWOptions{}, std::move(parts));
    }
    for (int step = 0; step < kSteps; ++step) {
      counter->reset_peaks();
      engine.begin_step();
      for (std::int64_t m = 0; m < test.microbatches; ++m) {
        engine.begin_microbatch(m + 1 == test.microbatches);
        const at::Tensor loss = model.loss_sum({tokens, positions, documents}, tokens, mask);
        engine.backward(loss, 1e-3);
      }
      engine.finish_grads();
      engine.clip(engine.step_sums().norm.norm, 1.0);
      std::vector<at::Tensor> grads;
      for (const OwnedPart& part : engine.owned()) grads.push_back(part.grad);
      optimizer->step(grads, 1e-3);
      engine.commit();
      if (world.coord() != 0) continue;
      measured.steady = counter->read();
      measured.peaks.push_back(measured.steady.peak_total);
    }
  });
  return measured;
}

DpMemory predict(const Case& test) {
  const DpChoice choice =
      dp_choice(test.policy, test.replicas, test.shards, test.microbatches, at::kFloat);
  const ModelShape shape = shape_of(test);
  const TapeOptions options{.batch = test.batch,
                            .seq_len = test.seq_len,
                            .param_bytes = choice.bytes.param,
                            .compute_bytes = choice.bytes.param,
                            .recompute = {.full = test.recompute.full,
                                          .attention_core = test.recompute.attention_core,
                                          .mlp_activation = test.recompute.mlp_activation,
                                          .norms = test.recompute.norms,
                                          .every = test.recompute.every,
                                          .first = test.recompute.first}};
  return predict_memory(make_decoder_plan(shape, choice), decoder_tape(shape, options));
}

std::vector<Case> cases() {
  using Kind = Reshard::Kind;
  std::vector<Case> all;
  struct Size {
    std::int64_t replicas, shards;
  };
  for (const Arch arch : {Arch::kLlama, Arch::kGpt2}) {
    for (const Preset preset :
         {Preset::kDdp, Preset::kZero1, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
      for (const Size& size : {Size{1, 1}, {1, 2}, {1, 4}, {2, 2}, {2, 4}}) {
        const std::int64_t microbatches = size.shards == 2 ? 2 : 1;
        all.push_back(
            {.name = fmt::format("{} {} {}x{} m{}", to_string(arch), preset_row(preset).name,
                                 size.replicas, size.shards, microbatches),
             .arch = arch,
             .replicas = size.replicas,
             .shards = size.shards,
             .microbatches = microbatches,
             .policy = {.preset = preset, .tie = Tie::kMergeUnits, .bucket_elements = 100'000}});
      }
    }
  }
  const auto add = [&](const char* name, const auto& change) {
    Case test{.name = name, .shards = 4, .microbatches = 2};
    change(test);
    all.push_back(test);
  };
  add("recompute", [](Case& t) { t.recompute.full = true; });
  add("recompute every other", [](Case& t) { t.recompute = {.full = true, .every = 2}; });
  add("recompute gpt2", [](Case& t) {
    t.arch = Arch::kGpt2;
    t.policy.tie = Tie::kMergeUnits;
    t.recompute.full = true;
  });
  add("recompute parts", [](Case& t) {
    t.recompute = {.attention_core = true, .mlp_activation = true, .norms = true};
  });
  add("recompute parts gpt2", [](Case& t) {
    t.arch = Arch::kGpt2;
    t.policy.tie = Tie::kMergeUnits;
    t.recompute = {.attention_core = true, .mlp_activation = true, .norms = true};
  });
  add("kept between", [](Case& t) { t.policy.reshard_after_forward = {Kind::kNever, 0, 0}; });
  add("kept by neighbours", [](Case& t) {
    t.policy.reshard_after_forward = {Kind::kKeepShard, 2, 0};
  });
  add("kept while it fits", [](Case& t) {
    t.policy.reshard_after_forward = {Kind::kFits, 0, 500'000};
  });
  add("kept in the step", [](Case& t) {
    t.policy.reshard_after_forward = {Kind::kNever, 0, 0};
    t.policy.reshard_after_backward = false;
  });
  add("no prefetch", [](Case& t) { t.policy.prefetch_bytes = 0; });
  add("summed locally", [](Case& t) { t.policy.accumulate = Accumulate::kLocal; });
  add("bf16 wire", [](Case& t) { t.policy.reduce_dtype = at::kBFloat16; });
  add("replicated ends", [](Case& t) {
    t.policy.overrides = {{.pattern = "tok_embeddings", .preset = Preset::kZero1},
                          {.pattern = "root", .preset = Preset::kDdp}};
  });
  add("kept layers", [](Case& t) {
    t.policy.overrides = {
        {.pattern = "layers.[23]", .reshard_after_forward = Reshard{Kind::kNever, 0, 0}}};
  });
  add("large vocabulary", [](Case& t) { t.vocab = 4000; });
  add("long rows", [](Case& t) {
    t.batch = 1;
    t.seq_len = 256;
  });
  add("wide", [](Case& t) {
    t.hidden = 128;
    t.layers = 2;
  });
  add("deep", [](Case& t) { t.layers = 10; });
  return all;
}

std::int64_t predicted_of(const DpMemory& memory, MemoryCategory category) {
  for (int i = 0; i < kNumDpBoxes; ++i) {
    const auto box = static_cast<DpBox>(i);
    if (std::string_view(to_string(box)) == to_string(category)) return memory.allocated.of(box);
  }
  return 0;
}

std::string table(const DpMemory& predicted, const Measured& measured) {
  std::string text = fmt::format("predicted {} at {}, measured {}\n", predicted.allocated.bytes,
                                 predicted.allocated.moment, measured.steady.peak_total);
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    text += fmt::format("  {:<14} predicted {:>9} measured {:>9}\n", to_string(category),
                        predicted_of(predicted, category),
                        measured.steady.at_peak[static_cast<std::size_t>(i)]);
  }
  return text;
}

TEST(MemoryPrediction, PeakOfDecodersInTraining) {
  std::vector<std::pair<double, std::string>> errors;
  const std::vector<Case> all = cases();
  for (std::size_t i = 0; i < all.size(); i += SX_MEMORY_STRIDE) {
    const Case& test = all[i];
    const DpMemory predicted = predict(test);
    const Measured measured = measure(test);
    ASSERT_EQ(measured.peaks.size(), 4u) << test.name;
    const auto peak = static_cast<double>(measured.steady.peak_total);
    const double error = std::abs(static_cast<double>(predicted.allocated.bytes) - peak) / peak;
    errors.emplace_back(error, test.name);
    EXPECT_LE(error, 0.03) << test.name << ": " << table(predicted, measured);
    // From the second step on the order of units is known.
    EXPECT_EQ(measured.peaks[2], measured.peaks[1]) << test.name;
    EXPECT_EQ(measured.peaks[3], measured.peaks[1]) << test.name;
    // Nothing is put down to the wrong account.
    for (int i = 0; i < kNumMemoryCategories; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      const double difference =
          std::abs(static_cast<double>(predicted_of(predicted, category) -
                                       measured.steady.at_peak[static_cast<std::size_t>(i)]));
      EXPECT_LE(difference / peak, 0.03)
          << test.name << " " << to_string(category) << ": " << table(predicted, measured);
    }
  }
  ASSERT_GE(errors.size(), 30u);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2].first, 0.01);
  fmt::print("{} configurations: median {:.3f} %, highest {:.3f} % ({})\n", errors.size(),
             100 * errors[errors.size() / 2].first, 100 * errors.back().first,
             errors.back().second);
}

}  // namespace
}  // namespace sx
