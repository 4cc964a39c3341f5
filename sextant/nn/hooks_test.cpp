// The moments of a unit: where backward hooks run, in which order, and what must not cut the graph.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include "sextant/base/check.h"
#include "sextant/nn/grad_hooks.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

/// y = x w, a unit of its own.
class Layer : public Module {
 public:
  Layer(Module& parent, std::string name, std::int64_t width, bool trainable = true)
      : Module(parent, std::move(name)) {
    weight_ = &add_parameter("weight", {width, width}, {InitKind::kNormal, 0.0, 0.5}, true);
    weight_->trainable = trainable;
    mark_unit();
  }
  at::Tensor forward(const at::Tensor& x) {
    return call(x, [this](const at::Tensor& in) { return in.matmul(weight_->tensor); });
  }
  Parameter& weight() { return *weight_; }

 private:
  Parameter* weight_;
};

class Chain : public Module {
 public:
  explicit Chain(std::int64_t depth) {
    for (std::int64_t i = 0; i < depth; ++i)
      layers.push_back(std::make_unique<Layer>(*this, "l" + std::to_string(i), 3));
    allocate(c10::kDouble);
    init_parameters(*this, 3);
  }
  std::vector<std::unique_ptr<Layer>> layers;
};

struct Log {
  std::vector<std::string> lines;
  void listen(Module& root) {
    for (Module* unit : root.units()) {
      for (const HookPoint point : kAllHookPoints) {
        unit->add_hook(point, "log", [this, point](Module& at, const at::Tensor&) {
          lines.push_back(std::string(to_string(point)) + " " + at.fqn());
        });
      }
    }
  }
};

TEST(Hooks, RunInOrderThroughForwardAndBackward) {
  Chain model(2);
  Log log;
  log.listen(model);
  GradHooks grads(model.parameters(), [&](std::size_t i, const at::Tensor& fresh) {
    EXPECT_TRUE(fresh.defined());
    log.lines.push_back("grad_ready " + model.parameters()[i]->fqn);
  });
  at::Tensor x = at::ones({2, 3}, c10::kDouble).set_requires_grad(true);
  for (auto& layer : model.layers) x = layer->forward(x);
  grads.backward(x.sum(), 1.0);
  EXPECT_EQ(log.lines, (std::vector<std::string>{
                           "pre_forward l0", "post_forward l0", "pre_forward l1", "post_forward l1",
                           "pre_backward l1", "grad_ready l1.weight", "post_backward l1",
                           "pre_backward l0", "grad_ready l0.weight", "post_backward l0"}));
  EXPECT_FALSE(model.layers[0]->weight().tensor.grad().defined());
}

TEST(Hooks, UnitWhoseInputNeedsNoGradientHasNoPostBackward) {
  Chain model(1);
  Log log;
  log.listen(model);
  const at::Tensor y = model.layers[0]->forward(at::ones({2, 3}, c10::kDouble));
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(log.lines,
            (std::vector<std::string>{"pre_forward l0", "post_forward l0", "pre_backward l0"}));
}

TEST(Hooks, UnitUsedTwiceFiresTwiceAndItsParameterOnce) {
  Chain model(1);
  Log log;
  log.listen(model);
  std::vector<at::Tensor> fresh;
  GradHooks grads(model.parameters(),
                  [&](std::size_t, const at::Tensor& grad) { fresh.push_back(grad); });
  at::Tensor x = at::ones({2, 3}, c10::kDouble).set_requires_grad(true);
  const std::int64_t version = model.layers[0]->weight().tensor._version();
  x = model.layers[0]->forward(model.layers[0]->forward(x));
  grads.backward(x.sum(), 1.0);
  EXPECT_EQ(std::count(log.lines.begin(), log.lines.end(), "pre_backward l0"), 2);
  EXPECT_EQ(std::count(log.lines.begin(), log.lines.end(), "post_backward l0"), 2);
  EXPECT_EQ(fresh.size(), 1U);
  EXPECT_EQ(model.layers[0]->weight().tensor._version(), version);
}

TEST(Hooks, DoNotChangeGradients) {
  std::vector<std::vector<at::Tensor>> runs;
  for (const bool hooked : {false, true}) {
    Decoder model(testing::tiny_llama());
    model.allocate(c10::kDouble);
    testing::randomize(model, 4);
    Log log;
    if (hooked) log.listen(model);
    runs.emplace_back(model.parameters().size());
    GradHooks grads(model.parameters(),
                    [&](std::size_t i, const at::Tensor& grad) { runs.back()[i] = grad; });
    const at::Tensor tokens = at::full({2, 5}, 3, c10::kLong);
    grads.backward(cross_entropy_sum(model.forward({tokens, {}, {}}), tokens, {}, 19), 0.1);
  }
  for (std::size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_TRUE(runs[0][i].defined() && at::equal(runs[0][i], runs[1][i])) << i;
  }
}

TEST(Hooks, FrozenUnitPassesTheGradientOn) {
  Chain model(3);
  model.layers[1]->weight().trainable = false;
  model.layers[1]->weight().tensor.set_requires_grad(false);
  Log log;
  log.listen(model);
  at::Tensor x = at::ones({2, 3}, c10::kDouble).set_requires_grad(true);
  for (auto& layer : model.layers) x = layer->forward(x);
  torch::autograd::backward({x.sum()}, {});
  EXPECT_EQ(std::count(log.lines.begin(), log.lines.end(), "post_backward l1"), 1);
  EXPECT_FALSE(model.layers[1]->weight().tensor.grad().defined());
}

TEST(Hooks, ExceptionSurfacesFromBackwardAndTheNextOneWorks) {
  Chain model(2);
  bool fail = true;
  model.layers[0]->add_hook(HookPoint::kPreBackward, "test", [&](Module& unit, const at::Tensor&) {
    if (fail) throw std::runtime_error("from the hook of " + unit.fqn());
  });
  int taken = 0;
  GradHooks grads(model.parameters(), [&](std::size_t, const at::Tensor&) { ++taken; });
  const auto run = [&] {
    at::Tensor x = at::ones({2, 3}, c10::kDouble).set_requires_grad(true);
    for (auto& layer : model.layers) x = layer->forward(x);
    grads.backward(x.sum(), 1.0);
  };
  try {
    run();
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "from the hook of l0");
  }
  fail = false;
  taken = 0;
  run();
  EXPECT_EQ(taken, 2);
}

TEST(Hooks, CastsOfAUnitAreSeenByItsHooksAndUndoneInBackward) {
  Chain model(1);
  Layer& layer = *model.layers[0];
  std::vector<c10::ScalarType> seen;
  for (const HookPoint point : kAllHookPoints) {
    layer.add_hook(point, "test",
                   [&](Module&, const at::Tensor& t) { seen.push_back(t.scalar_type()); });
  }
  layer.set_casts(c10::kDouble, c10::kFloat);
  const at::Tensor x = at::ones({2, 3}, c10::kHalf).set_requires_grad(true);
  const at::Tensor y = layer.forward(x);
  EXPECT_EQ(y.scalar_type(), c10::kFloat);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), c10::kHalf);
  EXPECT_EQ(layer.weight().tensor.grad().scalar_type(), c10::kDouble);
  EXPECT_EQ(seen,
            (std::vector<c10::ScalarType>{c10::kDouble, c10::kFloat, c10::kFloat, c10::kDouble}));
  layer.set_casts(std::nullopt, std::nullopt);
  EXPECT_EQ(layer.forward(x.detach().to(c10::kDouble)).scalar_type(), c10::kDouble);
}

TEST(Hooks, BackwardTwiceIsRefused) {
  Chain model(1);
  GradHooks grads(model.parameters(), [](std::size_t, const at::Tensor&) {});
  at::Tensor x = at::ones({2, 3}, c10::kDouble);
  const at::Tensor loss = model.layers[0]->forward(x).pow(2).sum();
  grads.backward(loss, 1.0);
  EXPECT_ANY_THROW(grads.backward(loss, 1.0));
  EXPECT_THROW(grads.backward(at::ones({}, c10::kDouble), 1.0), ContractError);
  const at::Tensor other = model.layers[0]->forward(x).sum();
  EXPECT_THROW(torch::autograd::backward({other}, {}), ContractError);
}

TEST(Hooks, NoGradForwardMarksNothing) {
  Chain model(1);
  Log log;
  log.listen(model);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(model.layers[0]->forward(at::ones({2, 3}, c10::kDouble)).requires_grad());
  EXPECT_EQ(log.lines.size(), 2U);
}

TEST(Hooks, AliasesNameOwnerAndUser) {
  ModelShape shape = testing::tiny_llama();
  shape.tie_embeddings = true;
  Decoder model(shape);
  const std::vector<ParameterAlias> aliases = model.aliases();
  ASSERT_EQ(aliases.size(), 1U);
  EXPECT_EQ(aliases[0].fqn, "output.weight");
  EXPECT_EQ(aliases[0].parameter->fqn, "tok_embeddings.weight");
  EXPECT_EQ(aliases[0].module, &model);
  EXPECT_EQ(model.unit_of(*aliases[0].parameter->owner)->fqn(), "tok_embeddings");
  const std::vector<Module*> units = model.units_of_parameters();
  ASSERT_EQ(units.size(), model.parameters().size());
  EXPECT_EQ(units.front()->fqn(), "tok_embeddings");
  EXPECT_EQ(units.back(), &model);
}

}  // namespace
}  // namespace sx
