// Offloaded parameters and gradients: the same bits, whatever the copies to and from the store do.
#include "sextant/dp/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <map>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dp/engine.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using ::testing::HasSubstr;
using testing::Stack;

using Tensors = std::map<std::string, at::Tensor>;

/// Weights after three steps of two microbatches, and the last step's gradients.
Tensors train_on(std::int64_t replicas, std::int64_t shards, const Policy& policy,
                 ArenaDebug debug = {}) {
  Tensors out;
  rank_test(replicas * shards, [&](Communicator& world) {
    DataComms comms(world, replicas, shards);
    Stack model(4, 7);
    debug.seed = static_cast<std::uint64_t>(world.coord());
    Engine engine(model, comms, policy, at::kDouble, Arena::make(debug));
    engine.init_parameters(1);
    for (std::int64_t step = 0; step < 3; ++step) {
      engine.begin_step();
      for (std::int64_t m = 0; m < 2; ++m) {
        engine.begin_microbatch(m == 1);
        engine.backward(model.loss((step * 2 + m) * 8 + world.coord(), at::kDouble), 0.125);
      }
      engine.finish_grads();
      engine.clip(engine.step_sums().norm.norm, 1.0);
      {
        const at::NoGradGuard no_grad;
        for (const OwnedPart& part : engine.owned())
          part.master.narrow(0, 0, part.end - part.begin).sub_(part.grad, 0.1);
      }
      engine.commit();
    }
    for (Parameter* parameter : model.parameters()) {
      const at::Tensor weight = engine.whole_parameter(parameter->fqn);
      const at::Tensor grad = engine.whole_gradient(parameter->fqn);
      if (world.coord() != 0) continue;
      out["weight of " + parameter->fqn] = weight;
      out["gradient of " + parameter->fqn] = grad;
    }
  });
  return out;
}

void expect_same(const Tensors& a, const Tensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, tensor] : a)
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << what << ": " << name;
}

// PR #180665: with replicas, the copy of a shard's gradients to the host began before the replicas'
// sum had ended. Every copy and every block of memory comes late here, by a random time.
TEST(Complaints, OffloadedSumsWaitForReplicasAndCopies) {
  const std::vector<std::pair<std::string, Policy>> ways = {
      {"fsdp2", {}},
      {"fsdp1", {.preset = Preset::kFsdp1}},
      {"flat order", {.order = FoldOrder::kFlat}},
      {"summed locally", {.accumulate = Accumulate::kLocal}},
      {"no prefetch", {.prefetch_bytes = 0}},
      {"narrow wire", {.reduce_dtype = at::kFloat}},
      {"narrow parameters", {.param_dtype = at::kFloat}},
      {"no overlap", {.overlap_reduce = false}},
      {"kept in the step", {.reshard_after_backward = false}}};
  for (const auto& [replicas, shards] : {std::pair<std::int64_t, std::int64_t>{2, 2}, {1, 3}}) {
    for (const auto& [name, policy] : ways) {
      const Tensors expected = train_on(replicas, shards, policy);
      for (const auto& [params, grads] : {std::pair{true, true}, {true, false}, {false, true}}) {
        Policy offloaded = policy;
        offloaded.offload_params = params;
        offloaded.offload_grads = grads;
        const ArenaDebug late{.poison = true, .check = true, .max_delay = 5e-5};
        expect_same(expected, train_on(replicas, shards, offloaded, late), name);
      }
    }
  }
}

TEST(Offload, StoreHoldsWhatTheArenaDoesNot) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    const auto held = [&](bool offload) {
      Stack model(3, 16);
      Engine engine(model, comms, {.offload_params = offload, .offload_grads = offload},
                    at::kFloat);
      engine.init_parameters(1);
      return std::pair{engine.arena().stats().live_total,
                       engine.store() == nullptr ? 0 : engine.store()->stats().live_total};
    };
    const auto [all, none] = held(false);
    EXPECT_GT(all, 0);
    EXPECT_EQ(none, 0);
    EXPECT_EQ(held(true), std::pair(std::int64_t{0}, all));
  });
}

TEST(Offload, FailedStepLeavesACorrectNextOne) {
  rank_test(2, [](Communicator& world) {
    const auto run = [&](bool fails) {
      DataComms comms(world, 1, 2);
      Stack model(3);
      Engine engine(model, comms, {.offload_params = true, .offload_grads = true}, at::kDouble,
                    Arena::make({.poison = true, .check = true, .max_delay = 1e-4}));
      engine.init_parameters(1);
      if (fails) {
        engine.begin_step();
        engine.begin_microbatch(true);
        (void)model.loss(3, at::kDouble);
        engine.abort_iteration();
      }
      engine.begin_step();
      engine.begin_microbatch(true);
      engine.backward(model.loss(world.coord(), at::kDouble), 1.0);
      engine.finish_grads();
      return engine.whole_gradient("blocks.1.weight");
    };
    EXPECT_TRUE(at::equal(run(false), run(true)));
  });
}

TEST(Offload, OnlyWhatIsSharded) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    const auto refused = [&](const Policy& policy) {
      Stack model(2);
      try {
        const Engine engine(model, comms, policy, at::kFloat);
      } catch (const ConfigError& e) {
        EXPECT_THAT(e.what(), HasSubstr("offload with"));
        return true;
      }
      return false;
    };
    EXPECT_TRUE(refused({.preset = Preset::kZero1, .offload_params = true}));
    EXPECT_TRUE(refused({.optimizer_over_replicas = true, .offload_grads = true}));
    Policy part{.offload_grads = true};
    part.overrides = {{.pattern = "root", .preset = Preset::kDdp}};
    EXPECT_TRUE(refused(part));
    EXPECT_FALSE(refused({.offload_params = true}));
  });
}

TEST(OffloadQueue, CopiesInOrderAndNotBeforeTheWait) {
  OffloadQueue queue(/*max_delay=*/0.02, /*seed=*/3);
  const at::Tensor from = at::arange(1000, at::kDouble);
  const at::Tensor first = at::zeros({1000}, at::kFloat), second = at::zeros({1000}, at::kFloat);
  const OffloadQueue::Ticket a = queue.start_copy(first, from);
  const OffloadQueue::Ticket b = queue.start_copy(second, first);  // of what the first one brings
  EXPECT_LT(a, b);
  queue.wait(b);
  EXPECT_TRUE(queue.is_done(a));
  EXPECT_TRUE(at::equal(second, from.to(at::kFloat)));
  queue.wait(0);
  EXPECT_THROW(queue.start_copy(first, at::zeros({3})), ContractError);
  EXPECT_THROW(queue.wait(b + 1), ContractError);
}

// What is started ends before the queue does: the owner's memory may go afterwards.
TEST(OffloadQueue, EndsWhatWasStarted) {
  const at::Tensor to = at::zeros({10}, at::kFloat);
  {
    OffloadQueue queue(0.01, 1);
    for (int i = 0; i < 5; ++i) queue.start_copy(to, at::full({10}, i, at::kFloat));
  }
  EXPECT_EQ(to.sum().item<float>(), 40);
}

}  // namespace
}  // namespace sx
