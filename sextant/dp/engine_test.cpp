// The mechanics of the engine; that every preset gives the reference's bits is
// tests/equivalence/presets_test.cpp.
#include "sextant/dp/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include <map>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using testing::Stack;

/// loss = sum of (x * factor) over parts of a model without units.
class Terms : public Module {
 public:
  explicit Terms(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      parts.push_back(
          &add_parameter("p" + std::to_string(i), {sizes[i]}, {InitKind::kZeros}, true));
    }
  }
  at::Tensor loss(double factor) {
    at::Tensor sum = at::full({}, 0.0, at::kDouble);
    for (Parameter* part : parts) sum = sum + (part->tensor * factor).sum();
    return sum;
  }
  std::vector<Parameter*> parts;
};

TEST(Engine, SumsOverRanksAndMicrobatchesForEveryBucketSize) {
  for (const std::int64_t bucket_elements : {1, 40, 100, 1'000'000}) {
    for (const Preset preset : {Preset::kDdp, Preset::kZero1, Preset::kZero2, Preset::kFsdp1}) {
      rank_test(3, [&](Communicator& world) {
        DataComms comms(world, 1, 3);
        Terms model({5, 33, 16, 1, 70});
        Engine engine(model, comms, {.preset = preset, .bucket_elements = bucket_elements},
                      at::kDouble);
        engine.init_parameters(1);
        for (int step = 0; step < 3; ++step) {
          engine.begin_step();
          for (int m = 0; m < 2; ++m) {
            engine.begin_microbatch(m == 1);
            engine.backward(model.loss(static_cast<double>(1 + world.coord() + 10 * m)), 0.5);
          }
          engine.finish_grads();
          for (Parameter* part : model.parts) {
            const at::Tensor grad = engine.whole_gradient(part->fqn);
            EXPECT_EQ(grad.min().item<double>(), (1 + 2 + 3 + 11 + 12 + 13) * 0.5) << part->fqn;
            EXPECT_EQ(grad.max().item<double>(), (1 + 2 + 3 + 11 + 12 + 13) * 0.5) << part->fqn;
          }
          EXPECT_EQ(engine.step_sums().norm.sum_of_squares, 125.0 * 21 * 21);
          engine.commit();
        }
      });
    }
  }
}

TEST(Engine, RecordsAPlanAndPrefetchesByIt) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(3);
    Engine engine(model, comms, {.preset = Preset::kFsdp2}, at::kDouble);
    engine.init_parameters(1);
    std::vector<std::int64_t> in_flight;
    for (int step = 0; step < 2; ++step) {
      engine.begin_step();
      engine.begin_microbatch(true);
      engine.backward(model.loss(world.coord(), at::kDouble), 1.0);
      engine.finish_grads();
      engine.commit();
    }
    EXPECT_EQ(GatherPlan::describe(engine.plan().events(), engine.unit_names()),
              "blocks.0 blocks.1 blocks.2 root | root blocks.2 blocks.1 blocks.0");
    for (const UnitBuffer* buffer : engine.buffers()) {
      EXPECT_EQ(buffer->state(), ShardedState::kSharded) << buffer->name();
    }
  });
}

TEST(Engine, ParametersAreReleasedBetweenUses) {
  rank_test(2, [](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(2);
    Engine engine(model, comms, {.preset = Preset::kFsdp1}, at::kFloat);
    engine.init_parameters(1);
    EXPECT_ANY_THROW(model.blocks[0]->weight().tensor.sum());
    const at::NoGradGuard no_grad;
    const at::Tensor first = model.loss(0, at::kFloat);
    EXPECT_TRUE(at::equal(first, model.loss(0, at::kFloat)));
    EXPECT_ANY_THROW(model.blocks[0]->weight().tensor.sum());
  });
}

TEST(Engine, WrongOrderIsRefused) {
  rank_test(1, [](Communicator& world) {
    DataComms comms(world, 1, 1);
    Stack model(1);
    Engine engine(model, comms, {}, at::kFloat);
    engine.init_parameters(1);
    EXPECT_THROW(engine.begin_microbatch(true), ContractError);
    EXPECT_THROW(engine.finish_grads(), ContractError);
    engine.begin_step();
    EXPECT_THROW(engine.begin_step(), ContractError);
    EXPECT_THROW(engine.finish_grads(), ContractError);
    engine.begin_microbatch(true);
    engine.backward(model.loss(1, at::kFloat), 1.0);
    EXPECT_THROW(engine.begin_microbatch(true), ContractError);
    engine.finish_grads();
    {
      engine.begin_step();
      const Engine::NoSync no_sync(engine);
      EXPECT_THROW(engine.begin_microbatch(true), ContractError);
    }
  });
}

// Each choice of a unit is its own: dtypes of its buffers, when it is reduced, what it is fed.
TEST(Engine, UnitsMayDifferInEveryChoice) {
  rank_test(2, [&](Communicator& world) {
    DataComms comms(world, 1, 2);
    Stack model(3, 8);
    Policy policy{.preset = Preset::kFsdp2};
    policy.overrides = {
        {.pattern = "blocks.*", .param_dtype = c10::kBFloat16, .output_dtype = c10::kFloat},
        {.pattern = "blocks.1",
         .preset = Preset::kZero1,
         .accumulate = Accumulate::kReduced,
         .reduce_dtype = c10::kBFloat16,
         .cast_inputs = false,
         .wire = ReduceWire::kA2aFp32},
        {.pattern = "root", .main_dtype = c10::kDouble}};
    Engine engine(model, comms, policy, at::kFloat);
    engine.init_parameters(1);
    std::map<std::string, const UnitBuffer*> by_name;
    for (const UnitBuffer* buffer : engine.buffers()) {
      for (const Parameter* parameter : buffer->parameters()) by_name[parameter->fqn] = buffer;
    }
    const UnitBuffer &first = *by_name.at("blocks.0.weight"),
                     &second = *by_name.at("blocks.1.bias"), &root = *by_name.at("head");
    EXPECT_EQ(first.dtypes().param, c10::kBFloat16);
    EXPECT_EQ(first.dtypes().reduce, c10::kFloat);
    EXPECT_TRUE(first.params_sharded());
    EXPECT_FALSE(second.params_sharded());
    EXPECT_EQ(second.dtypes().reduce, c10::kBFloat16);
    EXPECT_EQ(accumulation(second.policy(), 2), Accumulate::kReduced);
    EXPECT_EQ(second.policy().wire, ReduceWire::kA2aFp32);
    EXPECT_EQ(root.dtypes().main, c10::kDouble);
    EXPECT_EQ(root.dtypes().param, c10::kFloat);

    std::map<std::string, std::vector<c10::ScalarType>> seen;
    for (Module* unit : model.units()) {
      for (const HookPoint point : {HookPoint::kPreForward, HookPoint::kPostForward}) {
        unit->add_hook(point, "test", [&](Module& at, const at::Tensor& t) {
          seen[at.fqn()].push_back(t.scalar_type());
        });
      }
    }
    engine.begin_step();
    engine.begin_microbatch(true);
    engine.backward(model.loss(world.coord(), c10::kFloat), 1.0);
    engine.finish_grads();
    EXPECT_TRUE(engine.step_sums().norm.finite);
    using Types = std::vector<c10::ScalarType>;
    EXPECT_EQ(seen.at("blocks.0"), (Types{c10::kBFloat16, c10::kFloat}));
    EXPECT_EQ(seen.at("blocks.1"), (Types{c10::kFloat, c10::kFloat}));
    EXPECT_EQ(seen.at(""), (Types{c10::kFloat, c10::kFloat}));
    for (const OwnedPart& part : engine.owned()) {
      EXPECT_EQ(part.grad.scalar_type(),
                part.parameter->fqn == "head" ? c10::kDouble : c10::kFloat);
    }
  });
}

// The mean over 3 ranks of gradients whose sum fp16 cannot hold.
TEST(Engine, MeanOfFp16GradientsStaysInRange) {
  for (const Preset preset : {Preset::kDdp, Preset::kZero1, Preset::kFsdp1}) {
    rank_test(3, [&](Communicator& world) {
      DataComms comms(world, 1, 3);
      Terms model({5, 33});
      Engine engine(model, comms,
                    {.preset = preset, .grad_scale = GradScale::kMean, .reduce_dtype = c10::kHalf},
                    at::kFloat);
      engine.init_parameters(1);
      engine.begin_step();
      engine.begin_microbatch(true);
      engine.backward(model.loss(40000.0), 1.0);
      engine.finish_grads();
      EXPECT_NEAR(engine.whole_gradient("p1").max().item<float>(), 40000.0F, 40.0F);
      EXPECT_NEAR(engine.whole_gradient("p1").min().item<float>(), 40000.0F, 40.0F);
    });
  }
}

TEST(Engine, PolicyFaultsAreConfigErrors) {
  rank_test(4, [](Communicator& world) {
    DataComms comms(world, 1, 4);
    for (const Policy& policy :
         {Policy{.preset = Preset::kDdp, .optimizer_over_replicas = true},
          Policy{.preset = Preset::kFsdp2, .layout = LayoutKind::kBucketPlain},
          Policy{.reshard_after_forward = {Reshard::Kind::kKeepShard, 3, 0}},
          Policy{.main_dtype = at::kBFloat16}}) {
      Stack model(1);
      EXPECT_THROW(Engine(model, comms, policy, at::kFloat), ConfigError);
    }
  });
}

TEST(Engine, AbortedIterationLeavesACorrectNextStep) {
  for (const Preset preset : {Preset::kDdp, Preset::kZero2, Preset::kFsdp2}) {
    std::vector<at::Tensor> grads(2);
    for (const bool aborted : {false, true}) {
      rank_test(2, [&](Communicator& world) {
        DataComms comms(world, 1, 2);
        Stack model(3);
        Engine engine(model, comms, {.preset = preset}, at::kDouble);
        engine.init_parameters(1);
        const auto run = [&](std::int64_t row) {
          engine.begin_step();
          engine.begin_microbatch(true);
          engine.backward(model.loss(row + world.coord(), at::kDouble), 1.0);
          engine.finish_grads();
        };
        run(10);
        bool fail = aborted;  // outlives the hook
        if (aborted) {
          model.blocks[1]->add_hook(HookPoint::kPreBackward, "test",
                                    [&fail](Module&, const at::Tensor&) {
                                      if (fail) throw std::runtime_error("on every rank");
                                    });
          EXPECT_THROW(run(3), std::runtime_error);
          fail = false;
          engine.abort_iteration();
          EXPECT_TRUE(engine.arena().live_leases().empty() ||
                      engine.arena().stats().live[static_cast<int>(MemoryClass::kTransient)] == 0);
        }
        run(5);
        const at::Tensor grad = engine.whole_gradient("blocks.0.weight");
        if (world.coord() == 0) grads[aborted ? 1 : 0] = grad;
      });
    }
    EXPECT_TRUE(at::equal(grads[0], grads[1]));
    EXPECT_GT(grads[0].abs().max().item<double>(), 0);
  }
}

TEST(Engine, RanksThatDifferInParametersAreFound) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& world) {
                           DataComms comms(world, 1, 2);
                           Stack model(1, world.coord() == 0 ? 4 : 5);
                           Engine engine(model, comms, {}, at::kFloat);
                         },
                         {.timeout = Seconds{10}}),
               ContractError);
}

}  // namespace
}  // namespace sx
