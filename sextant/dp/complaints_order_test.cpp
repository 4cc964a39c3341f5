// What users of other engines have complained about, one named test each, where ranks, units or
// memory come in the wrong order or size; the number is that of the report (pytorch/pytorch unless
// a name stands before it).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <atomic>
#include <set>

#include "sextant/base/rng.h"
#include "tests/equivalence/engine_step.h"

namespace sx::testing {
namespace {

using ::testing::HasSubstr;

// TorchSpec #126: a loader drops a batch on one rank.
TEST(ComplaintsOfOrder, OneMicrobatchMoreIsReportedWithCounts) {
  const std::string failure = failure_of(3, [](Communicator& world) {
    DataComms comms(world, 1, 3);
    Stack model(2);
    Engine engine(model, comms, {.preset = Preset::kDdp}, kDtype);
    engine.init_parameters(1);
    const int microbatches = world.coord() == 2 ? 3 : 2;
    engine.begin_step();
    for (int m = 0; m < microbatches; ++m) {
      engine.begin_microbatch(m + 1 == microbatches);
      engine.backward(plain_loss(model, m), 1.0);
    }
    engine.finish_grads();
  });
  EXPECT_THAT(failure, HasSubstr("microbatches"));
  EXPECT_THAT(failure, HasSubstr("3"));
}

// #76949, RFC #75373: two units of equal shape in another order on one rank.
TEST(ComplaintsOfOrder, SwappedUnitsAreFound) {
  const std::string failure = failure_of(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(3);
    if (world.coord() == 1) model.order = {1, 0, 2};
    Engine engine(model, comms, {}, kDtype);
    engine.init_parameters(1);
    step_of(engine, model, [&] { return plain_loss(model, 0); });
  });
  EXPECT_THAT(failure, HasSubstr("blocks.0"));
  EXPECT_THAT(failure, HasSubstr("blocks.1"));
}

// Automodel PR #3708: one group of 9 GiB.
TEST(ComplaintsOfOrder, LargeUnitsAreSplit) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(2, 40);
    Engine engine(model, comms, {.preset = Preset::kFsdp1, .prefetch_bytes = 0, .unit_cap = 13'000},
                  kDtype);
    engine.init_parameters(1);
    EXPECT_EQ(engine.buffers().size(), 5U);  // weight 12,800 bytes and bias apart, twice; head
    for (const UnitBuffer* buffer : engine.buffers())
      EXPECT_LE(buffer->gathered_bytes(), 13'056) << buffer->name();
    const auto one = step_of(engine, model, [&] {
      return model.loss(sixteenths({2, 40}, world.coord(), kDtype), sixteenths({2, 3}, 5, kDtype));
    });
    EXPECT_GT(one.at("blocks.0.bias").abs().max().item<double>(), 0);
  });
}

/// y = x w + x a b with w frozen.
class Lora : public Module {
 public:
  Lora() {
    base = &add_parameter("base", {8, 8}, {InitKind::kNormal, 0.0, 0.5}, true);
    base->trainable = false;
    a = &add_parameter("a", {8, 2}, {InitKind::kNormal, 0.0, 0.5}, true);
    b = &add_parameter("b", {2, 8}, {InitKind::kNormal, 0.0, 0.5}, true);
    mark_unit();
  }
  at::Tensor loss(std::int64_t row) {
    return call(sixteenths({2, 8}, row, kDtype),
                [this](const at::Tensor& x) {
                  return x.matmul(base->tensor) + x.matmul(a->tensor).matmul(b->tensor);
                })
        .pow(2)
        .sum();
  }
  Parameter *base, *a, *b;
};

// #104690, #91167, litgpt #1417: frozen weights cost gradient memory and traffic.
TEST(ComplaintsOfOrder, FrozenWeightsCostNoGradients) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Lora model;
    Engine engine(model, comms, {.preset = Preset::kFsdp1}, kDtype);
    engine.init_parameters(1);
    world.session().reset_traffic();
    step_of(engine, model, [&] { return model.loss(world.coord()); });
    std::int64_t adapter_bytes = 0;
    for (const UnitBuffer* buffer : engine.buffers()) {
      if (buffer->trainable()) adapter_bytes += buffer->reduce_bytes();
      EXPECT_TRUE(buffer->trainable() || buffer->reduce_bytes() == 0);
    }
    EXPECT_EQ(adapter_bytes, 2 * 16 * 8);  // a and b, no padding
    EXPECT_EQ(world.session().traffic_of(Collective::kReduceScatter).bytes, adapter_bytes / 2);
    // Gradient memory: the shard, and one unsharded adapter while it is reduced.
    EXPECT_EQ(engine.arena().stats().peak[static_cast<int>(MemoryClass::kGrads)],
              adapter_bytes / 2 + adapter_bytes);
    EXPECT_FALSE(model.base->tensor.grad().defined());
  });
}

// PR #180889, #180900: the buffer of the replicas' sum was used again too early.
TEST(ComplaintsOfOrder, DelayedReplicaSumsAndReusedMemory) {
  std::vector<std::map<std::string, at::Tensor>> runs;
  for (const bool disturbed : {false, true}) {
    rank_test(4, [&](Communicator& world) {
      DataComms comms(world, 2, 2);
      Stack model(4);
      const ArenaDebug debug{.poison = true,
                             .check = true,
                             .max_delay = disturbed ? 2e-3 : 0.0,
                             .seed = static_cast<std::uint64_t>(world.coord())};
      Engine engine(model, comms, {.reduce_dtype = at::kFloat}, kDtype, Arena::make(debug));
      engine.init_parameters(1);
      std::map<std::string, at::Tensor> grads;
      const RandomStream random(7, "test.allocations");
      for (int step = 0; step < 2; ++step) {
        std::vector<Lease> leases;
        for (std::uint64_t i = 0; disturbed && i < 100; ++i) {
          leases.push_back(engine.arena().acquire(static_cast<std::int64_t>(random.u64(i) % 2000),
                                                  MemoryClass::kTransient, "noise"));
          if (i % 3 == 0) leases.erase(leases.begin());
        }
        grads = step_of(engine, model, [&] { return plain_loss(model, world.coord()); });
      }
      if (world.coord() == 0) runs.push_back(grads);
    });
  }
  ASSERT_EQ(runs.size(), 2U);
  expect_equal(runs[0], runs[1]);
  EXPECT_FALSE(at::equal(runs[0].at("blocks.0.weight"), runs[0].at("blocks.3.weight")));
}

// Megatron-LM PR #6187, #4609: stale data in reused buffers.
TEST(ComplaintsOfOrder, PoisonedMemoryNeverReachesAGradient) {
  for (const LayoutKind layout :
       {LayoutKind::kPerParam, LayoutKind::kFlat, LayoutKind::kBlock, LayoutKind::kTensor}) {
    rank_test(3, [&](Communicator& world) {
      DataComms comms(world, 1, 3);
      Stack model(3, 7);
      Engine engine(model, comms, {.layout = layout}, kDtype,
                    Arena::make({.poison = true, .check = true}));
      engine.init_parameters(1);
      for (int step = 0; step < 3; ++step) {
        const auto grads = step_of(engine, model, [&] {
          return model.loss(sixteenths({2, 7}, step, kDtype), sixteenths({2, 3}, step, kDtype));
        });
        for (const auto& [name, grad] : grads)
          EXPECT_TRUE(grad.isfinite().all().item<bool>()) << name;
        EXPECT_TRUE(engine.step_sums().norm.finite);
      }
    });
  }
}

std::vector<double> losses_of(const Policy& policy, std::int64_t replicas, std::int64_t shards,
                              const std::vector<std::size_t>& order) {
  std::vector<double> losses;
  rank_test(replicas * shards, [&](Communicator& world) {
    DataComms comms(world, replicas, shards);
    Stack model(4);
    model.order = order;
    Engine engine(model, comms, policy, kDtype);
    engine.init_parameters(1);
    for (int step = 0; step < 4; ++step) {
      double loss = 0;
      step_of(engine, model, [&] {
        const at::Tensor l = plain_loss(model, step);
        loss = l.item<double>();
        return l;
      });
      const at::NoGradGuard no_grad;
      for (const OwnedPart& part : engine.owned())
        part.master.narrow(0, 0, part.end - part.begin).sub_(part.grad, 0.01);
      engine.commit();
      if (world.coord() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

// Megatron-LM #950, #663, NeMo-RL #552: stale weights when units do not run as registered.
// Megatron-LM #3670, PR #3693: overlap with optimizer state over instances.
TEST(ComplaintsOfOrder, OverlapIsRightWhateverTheOrderOfUnits) {
  const std::vector<std::size_t> shuffled{2, 0, 3, 1};
  for (const Preset preset : {Preset::kZero1, Preset::kZero2, Preset::kFsdp2}) {
    const auto expected = losses_of({.preset = Preset::kDdp}, 2, 2, shuffled);
    EXPECT_NE(expected.back(), expected.front());
    for (const bool overlap : {false, true}) {
      for (const bool over_replicas : {false, true}) {
        const Policy policy{.preset = preset,
                            .optimizer_over_replicas = over_replicas,
                            .bucket_elements = 40,
                            .overlap_reduce = overlap,
                            .overlap_param_gather = overlap};
        EXPECT_EQ(losses_of(policy, 2, 2, shuffled), expected);
      }
    }
  }
}

/// One large parameter and many tiny ones.
class Lopsided : public Module {
 public:
  Lopsided() {
    for (int i = 0; i < 40; ++i)
      parts.push_back(&add_parameter(fmt::format("p{}", i), {i == 17 ? 5000 : 1 + i % 3},
                                     {InitKind::kNormal, 0.0, 1.0}, true));
    mark_unit();
  }
  at::Tensor loss(double factor) {
    return call(at::zeros({1}, kDtype), [&, this](const at::Tensor& zero) {
      at::Tensor sum = zero.sum();
      for (Parameter* part : parts) sum = sum + (part->tensor * factor).sum();
      return sum;
    });
  }
  std::vector<Parameter*> parts;
};

// radixark/Megatron-LM PR #66: ranks with lists of different length.
TEST(ComplaintsOfOrder, OneHugeAndManyTinyParameters) {
  for (const LayoutKind layout : {LayoutKind::kPerParam, LayoutKind::kFlat, LayoutKind::kTensor}) {
    rank_test(8, [&](Communicator& world) {
      DataComms comms(world, 1, 8);
      Lopsided model;
      Engine engine(model, comms, {.layout = layout}, kDtype);
      engine.init_parameters(1);
      EXPECT_EQ(engine.owned().size(), 40U);  // the same keys on every rank, empty parts too
      const auto grads = step_of(engine, model, [&] { return model.loss(1.0); });
      for (const auto& [name, grad] : grads) EXPECT_EQ(grad.min().item<double>(), 8.0) << name;
    });
  }
}

// #65078, #82001, PR #83666: peaks that differ from run to run.
TEST(ComplaintsOfOrder, FiftyStepsAllocateAlike) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(4);
    Engine engine(model, comms, {}, kDtype);
    engine.init_parameters(1);
    std::set<std::pair<std::int64_t, std::int64_t>> seen;  // peak, blocks handed out
    std::set<std::int64_t> allocations;
    for (int step = 0; step < 50; ++step) {
      const ArenaStats before = engine.arena().stats();
      engine.arena().reset_peaks();
      engine.begin_step();
      engine.begin_microbatch(true);
      engine.backward(plain_loss(model, step + world.coord()), 1.0);
      engine.finish_grads();
      engine.commit();
      const ArenaStats after = engine.arena().stats();
      if (step < 1) continue;
      seen.insert({after.peak_total, after.leases - before.leases});
      allocations.insert(after.allocations - before.allocations);
    }
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_EQ(allocations.size(), 1U);
  });
}

// An exception before a gather on one rank: the others hang elsewhere.
TEST(ComplaintsOfOrder, ExceptionInAHookReachesAllRanks) {
  for (const HookPoint point : kAllHookPoints) {
    const std::string failure = failure_of(3, [&](Communicator& world) {
      DataComms comms(world, 1, 3);
      Stack model(3);
      Engine engine(model, comms, {}, kDtype);
      engine.init_parameters(1);
      if (world.coord() == 1) {
        model.blocks[1]->add_hook(point, "test", [](Module& unit, const at::Tensor&) {
          throw std::runtime_error("bad image in " + unit.fqn());
        });
      }
      step_of(engine, model, [&] { return plain_loss(model, 0); });
    });
    EXPECT_THAT(failure, HasSubstr("bad image in blocks.1")) << to_string(point);
  }
}

/// A single parameter of n elements.
class Lonely : public Module {
 public:
  explicit Lonely(std::int64_t n) {
    weight = &add_parameter("w", {n}, {InitKind::kNormal, 0.0, 1.0}, true);
    mark_unit();
  }
  at::Tensor loss(double factor) {
    return call(at::zeros({1}, kDtype), [&, this](const at::Tensor& zero) {
      return zero.sum() + (weight->tensor * factor).sum();
    });
  }
  Parameter* weight;
};

// karpathy/llm.c: sharding falls back to none when the sizes do not divide.
TEST(ComplaintsOfOrder, OddSizesAreShardedAllTheSame) {
  for (const std::int64_t n : {1, 7, 127}) {
    for (const std::int64_t ranks : {3, 5, 8}) {
      for (const Preset preset : {Preset::kZero1, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
        std::atomic<std::int64_t> owned = 0;
        rank_test(ranks, [&](Communicator& world) {
          DataComms comms(world, 1, ranks);
          Lonely model(n);
          Engine engine(model, comms, {.preset = preset}, kDtype);
          engine.init_parameters(1);
          owned += engine.owned()[0].end - engine.owned()[0].begin;
          const auto grads = step_of(engine, model, [&] { return model.loss(0.5); });
          EXPECT_EQ(grads.at("w").sum().item<double>(), 0.5 * static_cast<double>(n * ranks));
        });
        EXPECT_EQ(owned.load(), n) << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace sx::testing
