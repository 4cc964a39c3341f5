// One microbatch's gradients, handed over one by one and added by the one rule.
#include "sextant/nn/grad_hooks.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/check.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

at::Tensor token_loss(Decoder& model, int microbatch) {
  const at::Tensor tokens = testing::random_tokens("micro" + std::to_string(microbatch), 2, 6, 19);
  return cross_entropy_sum(model.forward({tokens, {}, {}}), tokens, {}, 19);
}

/// Gradients of the microbatches `begin` to `end`, added in order.
std::vector<at::Tensor> sum_of(Decoder& model, int begin, int end) {
  std::vector<at::Tensor> sums;
  for (const Parameter* parameter : model.parameters())
    sums.push_back(at::zeros_like(parameter->tensor.detach()));
  bool first = true;
  GradHooks hooks(model.parameters(), [&](std::size_t i, const at::Tensor& fresh) {
    add_gradient(sums[i], fresh, first);
  });
  for (int m = begin; m < end; ++m, first = false) hooks.backward(token_loss(model, m), 1.0 / 48);
  return sums;
}

// Microbatches one after another equal the fold, in the same order, of gradients taken alone: bit
// for bit.
TEST(GradHooks, MicrobatchesAreAddedInOrder) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
      const auto model = testing::make_decoder(shape, dtype);
      std::vector<at::Tensor> fold = sum_of(*model, 0, 1);
      for (int m = 1; m < 4; ++m) {
        const std::vector<at::Tensor> alone = sum_of(*model, m, m + 1);
        for (std::size_t i = 0; i < fold.size(); ++i) fold[i].add_(alone[i]);
      }
      const std::vector<at::Tensor> together = sum_of(*model, 0, 4);
      for (std::size_t i = 0; i < fold.size(); ++i) {
        EXPECT_TRUE(at::equal(fold[i], together[i])) << model->parameters()[i]->fqn;
        EXPECT_FALSE(model->parameters()[i]->tensor.grad().defined());
      }
      EXPECT_GT(together.front().abs().max().item<double>(), 0.0);
    }
  }
}

TEST(GradHooks, HandOverOnceFromTheLastLayerToTheFirst) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  std::vector<std::string> order;
  GradHooks hooks(model->parameters(), [&](std::size_t i, const at::Tensor&) {
    order.push_back(model->parameters()[i]->fqn);
  });
  hooks.backward(token_loss(*model, 0), 1.0);
  ASSERT_EQ(order.size(), model->parameters().size());
  EXPECT_EQ(order.front(), "output.weight");
  EXPECT_EQ(order.back(), "tok_embeddings.weight");
  const auto place = [&](const char* name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(place("layers.1.attention.wq.weight"), place("layers.0.feed_forward.down.weight"));
}

TEST(GradHooks, HaveOneOwner) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  const auto ignore = [](std::size_t, const at::Tensor&) {};
  {
    GradHooks hooks(model->parameters(), ignore);
    EXPECT_THROW(GradHooks(model->parameters(), ignore), ContractError);
  }
  const GradHooks again(model->parameters(), ignore);
}

// Copied first, because 0 + -0 loses a sign; an undefined contribution is a zero that is added, as
// in a sum over ranks.
TEST(AddGradient, KeepsTheSignOfAFirstZero) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  const at::Tensor main = at::zeros_like(model->parameters().front()->tensor.detach());
  const at::Tensor one = main.view({-1}).narrow(0, 0, 1);
  add_gradient(main, at::zeros_like(main).mul(-0.0), true);
  EXPECT_TRUE(std::signbit(one.item<float>()));
  add_gradient(main, {}, false);
  EXPECT_FALSE(std::signbit(one.item<float>()));
  add_gradient(main, at::zeros_like(main).add(3.0), false);
  EXPECT_EQ(one.item<float>(), 3.0F);
  add_gradient(main, {}, true);
  EXPECT_EQ(main.abs().max().item<float>(), 0.0F);
}

}  // namespace
}  // namespace sx
