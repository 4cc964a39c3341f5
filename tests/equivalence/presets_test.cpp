// Every preset and layout against the hook-free reference with the same mesh, order and
// accumulation: losses, norms, gradients, weights and optimizer state, bit by bit. Here a part of
// the matrix that takes seconds; the whole is presets_matrix_test.cpp.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <cstdio>

#include "sextant/dist/threads.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/preset_matrix.h"

namespace sx {
namespace {

TEST(PresetBits, EqualTheReference) {
  const int cells = run_matrix({{1, 1}, {1, 2}, {2, 2}, {1, 3}}, {c10::kDouble}, {1, 3});
  std::fprintf(stderr, "%d cells\n", cells);
  RecordProperty("cells", cells);
}

// Other orders of the same sums stay within rounding, and are other sums: the comparison sees it.
TEST(PresetBits, OtherOrdersAreWithinRounding) {
  for (const auto& [dtype, loss_bound, bound] :
       {std::tuple{c10::kDouble, 1e-12, 1e-11}, std::tuple{c10::kFloat, 2e-6, 1e-5}}) {
    RunCase test{.replicas = 2, .shards = 2, .microbatches = 3, .dtype = dtype, .steps = 1};
    std::vector<RunResult> runs;
    for (const FoldOrder order : {FoldOrder::kNested, FoldOrder::kFlat}) {
      for (const Accumulate accumulate : {Accumulate::kReduced, Accumulate::kLocal}) {
        test.order = order;
        test.accumulate = accumulate;
        runs.push_back(run_engine(make_stack, test, {.preset = Preset::kFsdp2}));
      }
    }
    bool any = false;
    for (std::size_t i = 1; i < runs.size(); ++i) {
      EXPECT_LE(loss_difference(runs[0], runs[i]), loss_bound);
      EXPECT_LE(tensor_difference(runs[0], runs[i], "grads."), bound);
      any = any || !differences(runs[0], runs[i]).empty();
    }
    EXPECT_TRUE(any);
  }
}

// What may not change a bit: when parameters are gathered and released, what is overlapped, which
// communicators carry it, what lies in reused memory.
TEST(PresetBits, SchedulesDoNotMatter) {
  using Kind = Reshard::Kind;
  std::vector<Variant> schedules;
  const auto add = [&](const char* name, Policy policy, ArenaDebug = {}) {
    schedules.push_back({name, std::move(policy)});
  };
  for (const LayoutKind layout : {LayoutKind::kPerParam, LayoutKind::kFlat}) {
    add("always", {.layout = layout, .reshard_after_forward = {Kind::kAlways, 0, 0}});
    add("never", {.layout = layout, .reshard_after_forward = {Kind::kNever, 0, 0}});
    add("keep 2", {.layout = layout, .reshard_after_forward = {Kind::kKeepShard, 2, 0}});
    add("fits", {.layout = layout, .reshard_after_forward = {Kind::kFits, 0, 1500}});
    add("kept in the step", {.layout = layout, .reshard_after_backward = false});
    add("no prefetch", {.layout = layout, .prefetch_bytes = 0});
    add("much prefetch", {.layout = layout, .prefetch_bytes = 1 << 20});
    add("no overlap", {.layout = layout, .overlap_reduce = false, .overlap_param_gather = false});
    add("one communicator", {.layout = layout, .separate_comms = false});
    add("small units", {.layout = layout, .unit_cap = 100});
    add("mixed", {.layout = layout,
                  .overrides = {{.pattern = "blocks.0", .preset = Preset::kZero1},
                                {.pattern = "root", .preset = Preset::kDdp}}});
  }
  add("zero1 no overlap", {.preset = Preset::kZero1, .overlap_param_gather = false});
  add("zero1 buses", {.preset = Preset::kZero1, .pad_for_bus = true});
  add("ddp torch buckets",
      {.preset = Preset::kDdp, .layout = LayoutKind::kBucketPlain, .compat = LayoutCompat::kTorch});
  add("fsdp1 torch offsets", {.preset = Preset::kFsdp1, .compat = LayoutCompat::kTorch});
  add("zero1 megatron", {.preset = Preset::kZero1, .compat = LayoutCompat::kMegatron});
  int cells = 0;
  for (const MeshSize mesh : {MeshSize{1, 4}, MeshSize{2, 4}}) {
    const RunCase test{.replicas = mesh.replicas, .shards = mesh.shards, .microbatches = 2};
    const RunResult expected = run_reference(make_stack, test);
    for (const Variant& schedule : schedules) {
      for (const ArenaDebug& debug :
           {ArenaDebug{}, ArenaDebug{.poison = true, .check = true, .max_delay = 1e-4}}) {
        const auto found =
            differences(expected, run_engine(make_stack, test, schedule.policy, debug));
        EXPECT_TRUE(found.empty())
            << test.to_string() << " " << schedule.name << ": " << found.front();
        ++cells;
      }
    }
  }
  std::fprintf(stderr, "%d cells\n", cells);
}

// bf16 parameters and wire with fp32 masters: the same casts at the same places.
TEST(PresetBits, NarrowDtypes) {
  for (const bool narrow_wire : {false, true}) {
    for (const FoldOrder order : {FoldOrder::kNested, FoldOrder::kFlat}) {
      RunCase test{.replicas = 2,
                   .shards = 2,
                   .order = order,
                   .microbatches = 2,
                   .dtype = c10::kFloat,
                   .param_dtype = c10::kBFloat16};
      if (narrow_wire) test.reduce_dtype = c10::kBFloat16;
      const RunResult expected = run_reference(make_stack, test);
      for (const Variant& variant : variants(true)) {
        for (const ReduceWire wire : {ReduceWire::kReduceDtype, ReduceWire::kA2aFp32}) {
          Policy policy = variant.policy;
          policy.wire = wire;
          const auto found = differences(expected, run_engine(make_stack, test, policy));
          EXPECT_TRUE(found.empty()) << test.to_string() << " " << variant.name
                                     << (narrow_wire ? " bf16 wire" : "") << ": " << found.front();
        }
      }
    }
  }
}

// Weights, inputs and gradients are small multiples of powers of two, so every sum is exact: a
// wrong, missing or doubled term shows under every order, mesh and preset, without a tolerance.
at::Tensor exact_gradients(const MeshSize& mesh, const Policy& policy) {
  constexpr std::int64_t kRows = 16;
  at::Tensor all;
  run_ranks(mesh.replicas * mesh.shards, [&](Communicator& world) {
    DataComms comms(world, mesh.replicas, mesh.shards);
    testing::Stack model(2, 7, /*linear=*/true);
    Engine engine(model, comms, policy, c10::kDouble);
    engine.init_parameters(1);
    std::int64_t salt = 0;
    for (const OwnedPart& part : engine.owned()) {
      const at::Tensor whole =
          testing::sixteenths(part.parameter->shape, 200 + salt++, c10::kDouble).view({-1});
      part.master.narrow(0, 0, part.end - part.begin)
          .copy_(whole.narrow(0, part.begin, part.end - part.begin));
    }
    engine.publish();
    const std::int64_t microbatches = kRows / world.degree();
    engine.begin_step();
    for (std::int64_t m = 0; m < microbatches; ++m) {
      engine.begin_microbatch(m + 1 == microbatches);
      engine.backward(model.loss(m * world.degree() + world.coord(), c10::kDouble), 1.0);
    }
    engine.finish_grads();
    std::vector<at::Tensor> grads;
    for (Parameter* parameter : model.parameters())
      grads.push_back(engine.whole_gradient(parameter->fqn).view({-1}));
    if (world.coord() == 0) {
      all = at::empty({0}, at::kDouble);
      for (const at::Tensor& grad : grads) all = at::cat({all, grad});
    }
  });
  return all;
}

TEST(PresetBits, IntegerModelIsExactUnderEveryOrder) {
  const at::Tensor expected = exact_gradients({1, 1}, {.preset = Preset::kDdp});
  EXPECT_GT(expected.abs().max().item<double>(), 0);
  int cells = 0;
  for (const MeshSize mesh : {MeshSize{1, 8}, MeshSize{2, 4}, MeshSize{4, 2}, MeshSize{8, 1}}) {
    for (const Variant& variant : variants(mesh.replicas > 1)) {
      for (const FoldOrder order : {FoldOrder::kNested, FoldOrder::kFlat}) {
        for (const Accumulate accumulate : {Accumulate::kLocal, Accumulate::kReduced}) {
          Policy policy = variant.policy;
          policy.order = order;
          policy.accumulate = accumulate;
          EXPECT_TRUE(at::equal(expected, exact_gradients(mesh, policy)))
              << mesh.replicas << "x" << mesh.shards << " " << variant.name;
          ++cells;
        }
      }
    }
  }
  std::fprintf(stderr, "%d cells\n", cells);
}

}  // namespace
}  // namespace sx
