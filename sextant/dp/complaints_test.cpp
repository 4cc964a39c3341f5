// What users of other engines have complained about, one named test each; the number is that of
// the report (pytorch/pytorch unless a name stands before it).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dp/engine.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using ::testing::HasSubstr;
using testing::sixteenths;
using testing::Stack;

constexpr c10::ScalarType kDtype = at::kDouble;

std::string failure_of(std::int64_t ranks, const std::function<void(Communicator&)>& body,
                       double within_seconds = 5.0) {
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    run_ranks(ranks, body, {.timeout = Seconds{60.0}});
  } catch (const std::exception& e) {
    text = e.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), within_seconds);
  return text;
}

/// One step of one microbatch; gradients by name.
std::map<std::string, at::Tensor> step_of(Engine& engine, Module& model,
                                          const std::function<at::Tensor()>& loss,
                                          double scale = 1.0) {
  engine.begin_step();
  engine.begin_microbatch(true);
  engine.backward(loss(), scale);
  engine.finish_grads();
  std::map<std::string, at::Tensor> grads;
  for (Parameter* parameter : model.parameters()) {
    if (parameter->trainable) grads[parameter->fqn] = engine.whole_gradient(parameter->fqn);
  }
  engine.commit();
  return grads;
}

void expect_equal(const std::map<std::string, at::Tensor>& a,
                  const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

/// The sum of rows [0, n) on one rank, microbatch by microbatch.
std::map<std::string, at::Tensor> alone(std::int64_t rows, double scale,
                                        const std::function<at::Tensor(Stack&, std::int64_t)>& loss,
                                        std::int64_t depth = 3) {
  std::map<std::string, at::Tensor> grads;
  rank_test(1, [&](Communicator& world) {
    DataComms comms(world, 1, 1);
    Stack model(depth);
    Engine engine(model, comms, {.preset = Preset::kDdp}, kDtype);
    engine.init_parameters(1);
    engine.begin_step();
    for (std::int64_t row = 0; row < rows; ++row) {
      engine.begin_microbatch(row + 1 == rows);
      engine.backward(loss(model, row), scale);
    }
    engine.finish_grads();
    for (Parameter* parameter : model.parameters())
      grads[parameter->fqn] = engine.whole_gradient(parameter->fqn);
  });
  return grads;
}

at::Tensor plain_loss(Stack& model, std::int64_t row) { return model.loss(row, kDtype); }

// #162338: reduce_scatter with an average gave the sum, silently.
TEST(Complaints, MeanOfTwoRanksIsTheMean) {
  const auto expected = alone(2, 0.5, plain_loss);
  rank_test(2, [&](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(3);
    Engine engine(model, comms, {.grad_scale = GradScale::kMean}, kDtype);
    engine.init_parameters(1);
    const auto grads = step_of(engine, model, [&] { return plain_loss(model, world.coord()); });
    for (const auto& [name, grad] : grads)
      EXPECT_LE((grad - expected.at(name)).abs().max().item<double>(), 1e-12) << name;
  });
}

/// Rank 0 leaves block 1 out; the others run it.
at::Tensor branching_loss(Stack& model, std::int64_t row, bool leave_out,
                          const std::function<void()>& instead = {}) {
  at::Tensor x = sixteenths({2, 5}, row, kDtype);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (leave_out && i == 1) {
      if (instead) instead();
      continue;
    }
    x = model.blocks[i]->forward(x);
  }
  return model.finish(x, sixteenths({2, 3}, row + 50, kDtype));
}

// #158719, torchtitan #2747: a parameter used on some ranks only.
TEST(Complaints, ParameterUsedOnSomeRanksOnly) {
  const auto expected =
      alone(2, 1.0, [](Stack& m, std::int64_t row) { return branching_loss(m, row, row == 0); });
  for (const Preset preset : {Preset::kDdp, Preset::kZero2}) {
    rank_test(2, [&](Communicator& world) {
      DataComms comms(world, 1, 2);
      Stack model(3);
      Engine engine(model, comms, {.preset = preset}, kDtype);
      engine.init_parameters(1);
      expect_equal(expected, step_of(engine, model, [&] {
                     return branching_loss(model, world.coord(), world.coord() == 0);
                   }));
    });
    const std::string failure = failure_of(2, [&](Communicator& world) {
      DataComms comms(world, 1, 2);
      Stack model(3);
      Engine engine(model, comms, {.preset = preset, .unused = Unused::kStrict}, kDtype);
      engine.init_parameters(1);
      step_of(engine, model,
              [&] { return branching_loss(model, world.coord(), world.coord() == 0); });
    });
    EXPECT_THAT(failure, HasSubstr("rank 0: blocks.1.weight got no gradient"));
  }
}

TEST(Complaints, GloballyUnusedParameterIsLeftAlone) {
  rank_test(2, [&](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(3);
    Engine engine(model, comms, {.preset = Preset::kDdp, .unused = Unused::kKeep}, kDtype);
    engine.init_parameters(1);
    step_of(engine, model, [&] { return branching_loss(model, world.coord(), true); });
    for (std::size_t i = 0; i < engine.owned().size(); ++i) {
      EXPECT_EQ(engine.updates(i), !engine.owned()[i].parameter->fqn.starts_with("blocks.1."));
    }
    step_of(engine, model,
            [&] { return branching_loss(model, world.coord(), world.coord() == 0); });
    for (std::size_t i = 0; i < engine.owned().size(); ++i) EXPECT_TRUE(engine.updates(i));
  });
}

// #152964, #148334: a rank skips a module (no image in its batch) and the others hang.
TEST(Complaints, SkippedUnitTakesPartWithZeros) {
  const auto expected =
      alone(4, 1.0, [](Stack& m, std::int64_t row) { return branching_loss(m, row, row == 2); });
  for (const Policy& policy : {Policy{.preset = Preset::kFsdp1}, Policy{},
                               Policy{.reshard_after_forward = {Reshard::Kind::kNever, 0, 0}},
                               Policy{.prefetch_bytes = 0}, Policy{.preset = Preset::kZero2}}) {
    rank_test(4, [&](Communicator& world) {
      DataComms comms(world, 1, 4);
      Stack model(3);
      Engine engine(model, comms, policy, kDtype);
      engine.init_parameters(1);
      for (int step = 0; step < 3; ++step) {
        expect_equal(expected, step_of(engine, model, [&] {
                       return branching_loss(model, world.coord(), world.coord() == 2,
                                             [&] { engine.skip(*model.blocks[1]); });
                     }));
      }
    });
  }
}

// TorchSpec #126: a loader drops a batch on one rank.
TEST(Complaints, OneMicrobatchMoreIsReportedWithCounts) {
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
TEST(Complaints, SwappedUnitsAreFound) {
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

// #38174: ranks run out of data at different times.
TEST(Complaints, JoinWithUnevenData) {
  const std::vector<std::int64_t> have{5, 3, 4};
  // Row numbers of a rank begin at 100 * rank.
  std::map<std::string, at::Tensor> expected;
  rank_test(1, [&](Communicator& world) {
    DataComms comms(world, 1, 1);
    Stack model(3);
    Engine engine(model, comms, {.preset = Preset::kDdp}, kDtype);
    engine.init_parameters(1);
    engine.begin_step();
    for (std::int64_t m = 0; m < 5; ++m) {
      for (std::size_t r = 0; r < 3; ++r) {
        if (m >= have[r]) continue;
        engine.begin_microbatch(m == 4);
        engine.backward(plain_loss(model, 100 * static_cast<std::int64_t>(r) + m), 1.0 / 12);
      }
    }
    engine.finish_grads();
    for (Parameter* parameter : model.parameters())
      expected[parameter->fqn] = engine.whole_gradient(parameter->fqn);
  });
  for (const Preset preset : {Preset::kDdp, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
    rank_test(3, [&](Communicator& world) {
      DataComms comms(world, 1, 3);
      Stack model(3);
      Engine engine(model, comms, {.preset = preset}, kDtype);
      engine.init_parameters(1);
      const std::int64_t own = have[static_cast<std::size_t>(world.coord())];
      engine.begin_step();
      bool more = engine.any_rank_has(own > 0);
      for (std::int64_t m = 0; more; ++m) {
        more = engine.any_rank_has(m + 1 < own);
        if (m < own) {
          engine.begin_microbatch(!more);
          engine.backward(plain_loss(model, 100 * world.coord() + m), 1.0 / 12);
        } else {
          engine.shadow_microbatch(!more);
        }
      }
      engine.finish_grads();
      for (const auto& [name, grad] : expected) {
        EXPECT_LE((engine.whole_gradient(name) - grad).abs().max().item<double>(), 1e-12) << name;
      }
    });
  }
}

// #170862, miles_diffusion PR #35, torchtitan #2318, #88621: the norm is that of one rank, or
// differs by a factor between ways to shard.
TEST(Complaints, NormIsOneNumberEverywhere) {
  double reference = 0;
  for (const auto& [name, grad] : alone(8, 1.0, plain_loss))
    reference += grad.pow(2).sum().item<double>();
  std::set<double> norms;
  std::mutex mutex;
  for (const auto& [replicas, shards] :
       {std::pair<std::int64_t, std::int64_t>{1, 8}, {2, 4}, {4, 2}, {8, 1}}) {
    for (const Preset preset :
         {Preset::kDdp, Preset::kZero1, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
      for (const bool over : {false, true}) {
        if (over && preset == Preset::kDdp) continue;
        rank_test(8, [&](Communicator& world) {
          DataComms comms(world, replicas, shards);
          Stack model(3);
          Engine engine(
              model, comms,
              {.preset = preset, .order = FoldOrder::kFlat, .optimizer_over_replicas = over},
              kDtype);
          engine.init_parameters(1);
          step_of(engine, model, [&] { return plain_loss(model, world.coord()); });
          const double norm = engine.step_sums().norm.norm;
          EXPECT_NEAR(norm, std::sqrt(reference), 1e-12 * norm);
          const std::lock_guard lock(mutex);
          norms.insert(norm);
        });
      }
    }
  }
  EXPECT_EQ(norms.size(), 1U);  // every rank, preset and mesh, to the last bit
}

/// An embedding whose table is also the head.
class Tied : public Module {
 public:
  explicit Tied(std::int64_t vocab) : body(*this, "body", 4, false) {
    table = std::make_unique<Table>(*this, vocab);
    add_alias("output.weight", table->weight());
    mark_unit();
  }
  at::Tensor loss(const at::Tensor& tokens) {
    const at::Tensor x = body.forward(table->forward(tokens));
    return call(x, [this](const at::Tensor& in) { return in.matmul(table->weight().tensor.t()); })
        .pow(2)
        .sum();
  }

  class Table : public Module {
   public:
    Table(Module& parent, std::int64_t vocab) : Module(parent, "embedding") {
      weight_ = &add_parameter("weight", {vocab, 4}, {InitKind::kNormal, 0.0, 0.5}, true);
      mark_unit();
    }
    at::Tensor forward(const at::Tensor& tokens) {
      return call(tokens,
                  [this](const at::Tensor& t) { return at::embedding(weight_->tensor, t); });
    }
    Parameter& weight() { return *weight_; }

   private:
    Parameter* weight_;
  };
  testing::Block body;
  std::unique_ptr<Table> table;
};

// #176076: rows of a tied, unevenly sharded table were never updated.
TEST(Complaints, TiedTableWithUnevenShardsChangesEverywhere) {
  const at::Tensor tokens = at::arange(10, at::kLong).view({2, 5});
  std::vector<at::Tensor> results;
  for (const std::int64_t ranks : {1, 4}) {
    rank_test(ranks, [&](Communicator& world) {
      DataComms comms(world, 1, ranks);
      Tied model(10);
      Engine engine(model, comms, {.tie = Tie::kMergeUnits}, kDtype);
      engine.init_parameters(1);
      const at::Tensor before = engine.whole_parameter("embedding.weight");
      for (int step = 0; step < 2; ++step) {
        step_of(
            engine, model, [&] { return model.loss(tokens); }, 1.0 / static_cast<double>(ranks));
        const at::NoGradGuard no_grad;
        for (const OwnedPart& part : engine.owned())
          part.master.narrow(0, 0, part.end - part.begin).sub_(part.grad, 0.01);
        engine.publish();
      }
      const at::Tensor after = engine.whole_parameter("embedding.weight");
      EXPECT_GT((after - before).abs().amax(1).min().item<double>(), 0) << "a row stayed";
      if (world.coord() == 0) results.push_back(after);
    });
  }
  ASSERT_EQ(results.size(), 2U);
  EXPECT_LE((results[0] - results[1]).abs().max().item<double>(), 1e-12);
}

// PR #176257, #179532, accelerate PR #4171, ezpz #237: tied parameters are refused late, or not.
TEST(Complaints, TiedParametersAreNamedWhenTheModelIsWrapped) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    {
      Tied model(6);
      try {
        Engine engine(model, comms, {}, kDtype);
        ADD_FAILURE() << "not refused";
      } catch (const ConfigError& e) {
        EXPECT_THAT(e.what(), HasSubstr("embedding.weight and output.weight are one parameter"));
      }
    }
    // Nothing is sharded in ddp, and zero1 gathers whole buckets: no unit owns the parameter.
    for (const Preset preset : {Preset::kDdp, Preset::kZero1}) {
      Tied model(6);
      EXPECT_NO_THROW(Engine(model, comms, {.preset = preset}, kDtype));
    }
  });
}

// Automodel PR #3708: one group of 9 GiB.
TEST(Complaints, LargeUnitsAreSplit) {
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

/// bf16 and fp32 parameters and frozen bytes in one unit.
class Mixed : public Module {
 public:
  Mixed() {
    wide = &add_parameter("wide", {3, 5}, {InitKind::kNormal, 0.0, 0.5}, true);
    narrow = &add_parameter("narrow", {5, 2}, {InitKind::kNormal, 0.0, 0.5}, true);
    narrow->dtype = at::kBFloat16;
    codes = &add_parameter("codes", {7}, {InitKind::kOnes}, false);
    codes->dtype = at::kByte;
    codes->trainable = false;
    mark_unit();
  }
  at::Tensor loss(std::int64_t row) {
    return call(sixteenths({2, 3}, row, at::kFloat),
                [this](const at::Tensor& x) {
                  const at::Tensor y =
                      x.matmul(wide->tensor).to(at::kBFloat16).matmul(narrow->tensor);
                  return y.to(at::kFloat) * codes->tensor.sum().to(at::kFloat);
                })
        .sum();
  }
  Parameter *wide, *narrow, *codes;
};

// #156784, accelerate PR #3985, peft #484: mixed dtypes in one unit.
TEST(Complaints, MixedDtypesInOneUnit) {
  std::map<std::int64_t, std::map<std::string, at::Tensor>> grads;
  for (const std::int64_t ranks : {1, 2, 4}) {
    rank_test(ranks, [&](Communicator& world) {
      DataComms comms(world, 1, ranks);
      Mixed model;
      Engine engine(model, comms, {.preset = Preset::kFsdp2, .layout = LayoutKind::kPerParam},
                    at::kFloat);
      engine.init_parameters(1);
      EXPECT_EQ(engine.buffers().size(), 3U);
      engine.begin_step();
      for (std::int64_t m = 0; m < 4 / ranks; ++m) {
        engine.begin_microbatch(m + 1 == 4 / ranks);
        engine.backward(model.loss(m * ranks + world.coord()), 1.0);
      }
      engine.finish_grads();
      auto own = std::map<std::string, at::Tensor>{{"wide", engine.whole_gradient("wide")},
                                                   {"narrow", engine.whole_gradient("narrow")}};
      if (world.coord() == 0) grads[ranks] = own;
    });
  }
  EXPECT_EQ(grads[1].at("narrow").scalar_type(), at::kFloat);
  EXPECT_GT(grads[1].at("narrow").abs().max().item<double>(), 0);
  for (const std::int64_t ranks : {2, 4}) {
    for (const auto& [name, grad] : grads[1])
      EXPECT_TRUE(at::allclose(grad, grads[ranks].at(name), 1e-5, 1e-6)) << name << ranks;
  }
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
TEST(Complaints, FrozenWeightsCostNoGradients) {
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
TEST(Complaints, DelayedReplicaSumsAndReusedMemory) {
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
TEST(Complaints, PoisonedMemoryNeverReachesAGradient) {
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
TEST(Complaints, OverlapIsRightWhateverTheOrderOfUnits) {
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
TEST(Complaints, OneHugeAndManyTinyParameters) {
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
TEST(Complaints, FiftyStepsAllocateAlike) {
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
      if (step < 2) continue;
      seen.insert({after.peak_total, after.leases - before.leases});
      allocations.insert(after.allocations - before.allocations);
    }
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_EQ(allocations.size(), 1U);
  });
}

// An exception before a gather on one rank: the others hang elsewhere.
TEST(Complaints, ExceptionInAHookReachesAllRanks) {
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
TEST(Complaints, OddSizesAreShardedAllTheSame) {
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
}  // namespace sx
