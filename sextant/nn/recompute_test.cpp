#include "sextant/nn/recompute.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <torch/csrc/autograd/autograd.h>

#include "sextant/base/check.h"
#include "sextant/nn/grad_hooks.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

struct Bits {
  at::Tensor loss;
  std::vector<at::Tensor> grads;
};

Bits run_decoder(const ModelShape& shape, c10::ScalarType dtype, const RecomputePlan& plan) {
  Decoder model(shape);
  model.allocate(dtype);
  testing::randomize(model, 4);
  model.apply(plan);
  Bits bits;
  bits.grads.resize(model.parameters().size());
  GradHooks grads(model.parameters(), [&](std::size_t i, const at::Tensor& grad) {
    EXPECT_FALSE(bits.grads[i].defined());
    bits.grads[i] = grad;
  });
  const at::Tensor tokens = at::remainder(at::arange(24, c10::kLong) * 7, 19).view({2, 12});
  const at::Tensor documents = at::arange(12, c10::kLong).ge(5).to(c10::kLong).expand({2, 12});
  bits.loss = cross_entropy_sum(model.forward({tokens, {}, documents}), tokens, {}, 19);
  grads.backward(bits.loss, 0.1);
  bits.loss = bits.loss.detach();
  return bits;
}

TEST(Recompute, EveryPlanGivesTheBitsOfThePlainRun) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
      const Bits plain = run_decoder(shape, dtype, {});
      for (const RecomputePlan& plan :
           {RecomputePlan{.full = true}, RecomputePlan{.full = true, .every = 2},
            RecomputePlan{.full = true, .first = 1}, RecomputePlan{.attention_core = true},
            RecomputePlan{.mlp_activation = true}, RecomputePlan{.norms = true},
            RecomputePlan{.attention_core = true, .mlp_activation = true, .norms = true}}) {
        const Bits again = run_decoder(shape, dtype, plan);
        EXPECT_TRUE(at::equal(plain.loss, again.loss));
        for (std::size_t i = 0; i < plain.grads.size(); ++i) {
          EXPECT_TRUE(again.grads[i].defined() && at::equal(plain.grads[i], again.grads[i]))
              << shape.name << " gradient " << i;
        }
      }
    }
  }
}

TEST(Recompute, SixtyFourBlocksInARow) {
  std::vector<at::Tensor> grads;
  for (const bool again : {false, true}) {
    at::Tensor w = (at::arange(9, c10::kDouble).view({3, 3}) / 20).set_requires_grad(true);
    at::Tensor x = at::ones({2, 3}, c10::kDouble);
    const Segment block = [&w](at::TensorList in) { return in[0].matmul(w).tanh(); };
    for (int i = 0; i < 64; ++i) x = again ? recompute(block, {x}) : block({x});
    torch::autograd::backward({x.sum()}, {});
    grads.push_back(w.grad());
  }
  EXPECT_LT((grads[0] - grads[1]).abs().max().item<double>(), 1e-14);
  EXPECT_GT(grads[0].abs().max().item<double>(), 0.0);
}

TEST(Recompute, NestsUpToEightLevels) {
  const auto nested = [](int levels) {
    Segment f = [](at::TensorList in) { return in[0] * in[0]; };
    for (int i = 0; i < levels; ++i) {
      f = [f](at::TensorList in) { return recompute(f, in); };
    }
    at::Tensor x = at::ones({1}, c10::kDouble).set_requires_grad(true);
    torch::autograd::backward({f({x}).sum()}, {});
    return x.grad().item<double>();
  };
  EXPECT_EQ(nested(kMaxRecomputeDepth), 2.0);
  EXPECT_THROW(nested(kMaxRecomputeDepth + 1), ContractError);
  EXPECT_EQ(nested(2), 2.0);  // the failure has left no trace
}

TEST(Recompute, ExceptionInTheSecondRunSurfaces) {
  int runs = 0;
  const Segment f = [&](at::TensorList in) {
    if (++runs == 2) throw std::runtime_error("second run");
    return in[0] * 2.0;
  };
  at::Tensor x = at::ones({1}, c10::kDouble).set_requires_grad(true);
  EXPECT_THROW(torch::autograd::backward({recompute(f, {x}).sum()}, {}), std::runtime_error);
  torch::autograd::backward({recompute(f, {x}).sum()}, {});
  EXPECT_EQ(x.grad().item<double>(), 2.0);
}

TEST(Recompute, UnitHooksDoNotRunAgain) {
  Decoder model(testing::tiny_llama());
  model.allocate(c10::kFloat);
  testing::randomize(model, 4);
  model.apply({.full = true});
  std::map<std::string, int> counts;
  for (Module* unit : model.units()) {
    for (const HookPoint point : kAllHookPoints) {
      unit->add_hook(point, "test", [&counts, point](Module& at, const at::Tensor&) {
        ++counts[std::string(to_string(point)) + " " + at.fqn()];
      });
    }
  }
  const at::Tensor tokens = at::arange(6, c10::kLong).view({1, 6});
  const at::Tensor loss = cross_entropy_sum(model.forward({tokens, {}, {}}), tokens, {}, 19);
  torch::autograd::backward({loss}, {});
  for (const auto& [what, count] : counts) EXPECT_EQ(count, 1) << what;
  EXPECT_EQ(counts.size(), 4U * 4U - 1U);  // no post_backward of the embedding
}

}  // namespace
}  // namespace sx
