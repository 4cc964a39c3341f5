// Bytes on the wire of one step, exactly: what the communicators have counted against the closed
// forms, P being the elements of all buffers with their padding.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <map>

#include "sextant/dp/engine.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

struct Case {
  const char* name;
  std::int64_t replicas, shards, microbatches;
  Policy policy;
  /// Expected elements sent on dp_shard, dp_replicate and both, from P, the root's part of it, R,
  /// W and m.
  double (*shard)(double p, double root, double r, double w, double m);
  double (*replicate)(double p, double w, double r) = nullptr;
  double (*both)(double p, double w, double r, double m) = nullptr;
};

double on_replicas(double p, double w, double r) { return 2 * p / w * (r - 1) / r; }

TEST(Volume, EqualsTheClosedForms) {
  using Kind = Reshard::Kind;
  const auto local_or_zero1 = [](double p, double, double, double w, double) {
    return 2 * p * (w - 1) / w;
  };
  const auto zero2 = [](double p, double, double, double w, double m) {
    return (p * m + p) * (w - 1) / w;
  };
  const auto fsdp = [](double p, double root, double, double w, double m) {
    return (3 * p - root) * m * (w - 1) / w;
  };
  const auto kept_in_forward = [](double p, double, double, double w, double m) {
    return 2 * p * m * (w - 1) / w;
  };
  const auto kept_in_step = [](double p, double, double, double w, double m) {
    return p * (1 + m) * (w - 1) / w;
  };
  const Reshard always{Kind::kAlways, 0, 0}, never{Kind::kNever, 0, 0};
  const std::vector<Case> cases = {
      {"ddp", 1, 4, 3, {.preset = Preset::kDdp}, local_or_zero1},
      {"zero1", 1, 4, 3, {.preset = Preset::kZero1, .bucket_elements = 50}, local_or_zero1},
      {"zero2", 1, 4, 3, {.preset = Preset::kZero2}, zero2},
      {"fsdp1", 1, 4, 3, {.preset = Preset::kFsdp1, .reshard_after_forward = always}, fsdp},
      {"fsdp2", 1, 8, 2, {.reshard_after_forward = always}, fsdp},
      {"fsdp2 auto", 1, 4, 1, {}, fsdp},
      {"no reshard", 1, 4, 3, {.reshard_after_forward = never}, kept_in_forward},
      {"kept in the step",
       1,
       4,
       3,
       {.reshard_after_forward = never, .reshard_after_backward = false},
       kept_in_step},
      {"kept and local",
       1,
       4,
       3,
       {.accumulate = Accumulate::kLocal,
        .reshard_after_forward = never,
        .reshard_after_backward = false},
       local_or_zero1},
      {"hsdp", 2, 4, 3, {.reshard_after_forward = always}, fsdp, on_replicas},
      {"ddp in two hops", 2, 2, 2, {.preset = Preset::kDdp}, local_or_zero1, on_replicas},
      {"hfsdp",
       2,
       4,
       2,
       {.optimizer_over_replicas = true, .reshard_after_forward = always},
       fsdp,
       on_replicas},
      {"hsdp flat",
       2,
       4,
       2,
       {.order = FoldOrder::kFlat, .reshard_after_forward = always},
       [](double p, double root, double, double w, double m) {
         return (2 * p - root) * m * (w - 1) / w;
       },
       nullptr,
       [](double p, double w, double r, double m) { return p * m * (r * w - 1) / w; }},
  };
  for (const Case& test : cases) {
    rank_test(test.replicas * test.shards, [&](Communicator& world) {
      DataComms comms(world, test.replicas, test.shards);
      testing::Stack model(3, 6);
      Engine engine(model, comms, test.policy, at::kDouble);
      engine.init_parameters(1);
      for (int step = 0; step < 3; ++step) {
        world.session().reset_traffic();
        engine.begin_step();
        for (std::int64_t m = 0; m < test.microbatches; ++m) {
          engine.begin_microbatch(m + 1 == test.microbatches);
          engine.backward(model.loss(m, at::kDouble), 1.0);
        }
        engine.finish_grads();
        engine.commit();
        // Gathers of updated parameters are waited for by the next forward.
        const at::NoGradGuard no_grad;
        if (!preset_row(test.policy.preset).params_sharded) (void)model.loss(0, at::kDouble);
      }
      double padded = 0, root = 0;
      for (const UnitBuffer* buffer : engine.buffers()) {
        padded += static_cast<double>(buffer->layout().gathered_numel());
        if (buffer->name() == "root")
          root += static_cast<double>(buffer->layout().gathered_numel());
      }
      std::map<std::string, double> sent;
      for (const TrafficRow& row : world.session().traffic())
        sent[row.axis.to_string()] += static_cast<double>(row.traffic.bytes) / 8;
      const auto r = static_cast<double>(test.replicas), w = static_cast<double>(test.shards),
                 m = static_cast<double>(test.microbatches);
      EXPECT_EQ(sent["dp_shard"], test.shard(padded, root, r, w, m)) << test.name;
      EXPECT_EQ(sent["dp_replicate"], test.replicate ? test.replicate(padded, w, r) : 0.0)
          << test.name;
      EXPECT_EQ(sent["dp_replicate+dp_shard"], test.both ? test.both(padded, w, r, m) : 0.0)
          << test.name;
    });
  }
}

// The unsharded norm, counts and checks are a few hundred bytes whatever the model.
TEST(Volume, WhatIsSentBesidesIsSmall) {
  rank_test(4, [&](Communicator& world) {
    DataComms comms(world, 1, 4);
    testing::Stack model(3, 40);
    Engine engine(model, comms, {}, at::kDouble);
    engine.init_parameters(1);
    for (int step = 0; step < 2; ++step) {
      world.session().reset_traffic();
      engine.begin_step();
      engine.begin_microbatch(true);
      engine.backward(model.loss(0, at::kDouble), 1.0);
      engine.finish_grads();
      (void)engine.step_sums();
      engine.commit();
    }
    std::int64_t control = 0;
    for (const TrafficRow& row : world.session().traffic()) {
      if (row.axis == AxisSet::world()) control += row.traffic.bytes;
    }
    EXPECT_GT(control, 0);
    EXPECT_LT(control, 1200);
  });
}

}  // namespace
}  // namespace sx
