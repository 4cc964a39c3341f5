#include "sextant/nn/main_grads.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "sextant/base/check.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"
#include "sextant/tensor/padded.h"

namespace sx {
namespace {

/// Two vectors; the loss uses only what the test asks for.
class TwoVectors : public Module {
 public:
  TwoVectors() {
    a_ = &add_parameter("a", {3}, {InitKind::kOnes}, true);
    b_ = &add_parameter("b", {40}, {InitKind::kOnes}, true);
    allocate(c10::kFloat);
    init_parameters(*this, 1);
  }
  const at::Tensor& a() const { return a_->tensor; }
  const at::Tensor& b() const { return b_->tensor; }

 private:
  Parameter* a_ = nullptr;
  Parameter* b_ = nullptr;
};

at::Tensor token_loss(Decoder& model, int microbatch) {
  const at::Tensor tokens = testing::random_tokens("micro" + std::to_string(microbatch), 2, 6, 19);
  return cross_entropy_sum(model.forward({tokens, {}, {}}), tokens, {}, 19);
}

TEST(MainGrads, SlotsArePaddedAndInOrder) {
  TwoVectors model;
  MainGrads grads(model);
  ASSERT_EQ(grads.slots().size(), 2u);
  EXPECT_EQ(grads.slots()[0].parameter->fqn, "a");
  EXPECT_EQ(grads.slots()[1].offset, 32);
  EXPECT_EQ(grads.slots()[1].padded, 64);
  EXPECT_EQ(grads.flat().numel(), 96);
  EXPECT_EQ(padded_block(grads.grad(1)).numel(), 64);
  EXPECT_THROW(MainGrads again(model), ContractError);
}

// Microbatches one after another equal the fold, in the same order, of gradients taken alone: bit
// for bit.
TEST(MainGrads, MicrobatchesAreAddedInOrder) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
      const auto model = testing::make_decoder(shape, dtype);
      MainGrads grads(*model);
      at::Tensor fold;
      for (int i = 0; i < 4; ++i) {
        grads.begin_step();
        grads.backward(token_loss(*model, i), 1.0 / 48);
        fold.defined() ? fold.add_(grads.flat()) : fold = grads.flat().clone();
      }
      grads.begin_step();
      for (int i = 0; i < 4; ++i) grads.backward(token_loss(*model, i), 1.0 / 48);
      EXPECT_EQ(grads.num_microbatches(), 4);
      EXPECT_TRUE(at::equal(fold, grads.flat()));
      EXPECT_GT(grads.grad("norm.weight").abs().max().item<double>(), 0.0);
      for (const Parameter* parameter : model->parameters())
        EXPECT_FALSE(parameter->tensor.grad().defined());
    }
  }
}

TEST(MainGrads, FirstContributionIsCopiedSoSignsOfZeroSurvive) {
  TwoVectors model;
  MainGrads grads(model);
  grads.begin_step();
  grads.backward(model.a().mul(-0.0).sum().add(model.b().sum()), 1.0);
  EXPECT_TRUE(std::signbit(grads.grad("a").narrow(0, 0, 1).item<float>()));
  grads.backward(model.b().sum(), 1.0);  // a contributes zero: -0 + 0 = +0, as in a sum over ranks
  EXPECT_FALSE(std::signbit(grads.grad("a").narrow(0, 0, 1).item<float>()));
  EXPECT_EQ(grads.grad("b").sum().item<float>(), 80.0f);
}

TEST(MainGrads, UnreachedParametersCountAsZeroAndAreReported) {
  TwoVectors model;
  MainGrads grads(model);
  std::vector<std::size_t> order;
  grads.on_grad_ready([&](std::size_t slot) { order.push_back(slot); });
  grads.begin_step();
  grads.backward(model.a().sum(), 2.0);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(grads.grad("a").sum().item<float>(), 6.0f);
  EXPECT_EQ(grads.grad("b").abs().sum().item<float>(), 0.0f);
  grads.begin_step();  // values of the last step are not seen
  grads.backward(model.b().sum(), 1.0);
  EXPECT_EQ(grads.grad("a").abs().sum().item<float>(), 0.0f);
}

TEST(MainGrads, ReportsEachSlotOnceFromTheLastLayerToTheFirst) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  MainGrads grads(*model);
  std::vector<std::string> order;
  grads.on_grad_ready(
      [&](std::size_t slot) { order.push_back(grads.slots()[slot].parameter->fqn); });
  grads.begin_step();
  grads.backward(token_loss(*model, 0), 1.0);
  ASSERT_EQ(order.size(), grads.slots().size());
  EXPECT_EQ(order.front(), "output.weight");
  EXPECT_EQ(order.back(), "tok_embeddings.weight");
  const auto place = [&](const char* name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(place("layers.1.attention.wq.weight"), place("layers.0.feed_forward.down.weight"));
}

TEST(MainGrads, AfterAnExceptionTheNextStepIsRight) {
  TwoVectors model;
  MainGrads grads(model);
  grads.on_grad_ready([](std::size_t) { throw std::runtime_error("peer gone"); });
  grads.begin_step();
  EXPECT_THROW(grads.backward(model.a().sum(), 1.0), std::runtime_error);
  grads.on_grad_ready({});
  EXPECT_THROW(grads.backward(model.a().sum(), 1.0), ContractError);
  grads.begin_step();
  grads.backward(model.a().sum(), 1.0);
  EXPECT_EQ(grads.grad("a").sum().item<float>(), 3.0f);
}

TEST(MainGrads, RefusesOtherUse) {
  TwoVectors model;
  MainGrads grads(model);
  grads.begin_step();
  EXPECT_THROW(grads.backward(model.a(), 1.0), ContractError);
  EXPECT_THROW(grads.backward(model.a().detach().sum(), 1.0), ContractError);
  EXPECT_THROW(model.a().sum().backward(), ContractError);
  EXPECT_THROW(grads.grad("c"), ContractError);
}

}  // namespace
}  // namespace sx
