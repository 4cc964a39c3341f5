// What users of other engines have complained about, one named test each, where gradients are
// wrong; the number is that of the report (pytorch/pytorch unless a name stands before it).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/embedding.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <set>

#include "sextant/base/diagnostic.h"
#include "tests/equivalence/engine_step.h"

namespace sx::testing {
namespace {

using ::testing::HasSubstr;

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

// #162338: reduce_scatter with an average gave the sum, silently.
TEST(ComplaintsOfGradients, MeanOfTwoRanksIsTheMean) {
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
TEST(ComplaintsOfGradients, ParameterUsedOnSomeRanksOnly) {
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

TEST(ComplaintsOfGradients, GloballyUnusedParameterIsLeftAlone) {
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
TEST(ComplaintsOfGradients, SkippedUnitTakesPartWithZeros) {
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

// #38174: ranks run out of data at different times.
TEST(ComplaintsOfGradients, JoinWithUnevenData) {
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
TEST(ComplaintsOfGradients, NormIsOneNumberEverywhere) {
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
  Block body;
  std::unique_ptr<Table> table;
};

// #176076: rows of a tied, unevenly sharded table were never updated.
TEST(ComplaintsOfGradients, TiedTableWithUnevenShardsChangesEverywhere) {
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
TEST(ComplaintsOfGradients, TiedParametersAreNamedWhenTheModelIsWrapped) {
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
TEST(ComplaintsOfGradients, MixedDtypesInOneUnit) {
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

}  // namespace
}  // namespace sx::testing
