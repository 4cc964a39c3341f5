#include "sextant/nn/head_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sextant/base/check.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

using testing::long_tensor;
using testing::max_difference;
using testing::random_normal;
using testing::random_tokens;

struct Case {
  at::Tensor x, weight, targets, mask;
};

Case make_case(c10::ScalarType dtype) {
  return {random_normal("hidden", {3, 5, 8}, dtype).set_requires_grad(true),
          random_normal("head", {24, 8}, dtype).set_requires_grad(true),
          random_tokens("composed", 3, 5, 17), random_tokens("mask", 3, 5, 2)};
}

// Chunks of one row, of four rows and of all rows, against the logits made whole.
TEST(HeadLoss, ValueAndGradientsAgreeWithTheLossOverWholeLogits) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    const double bar = dtype == c10::kDouble ? 1e-13 : 2e-5;
    const Case a = make_case(dtype);
    const at::Tensor whole = cross_entropy_sum(at::linear(a.x, a.weight), a.targets, a.mask, 17);
    whole.mul(0.25).backward();
    for (const std::int64_t rows : {1, 4, 100}) {
      const Case b = make_case(dtype);
      const at::Tensor fused =
          head_cross_entropy_sum(b.x, b.weight, b.targets, b.mask, 17,
                                 rows * 17 * static_cast<std::int64_t>(b.x.element_size()));
      EXPECT_NEAR(fused.item<double>(), whole.item<double>(), 100 * bar);
      fused.mul(0.25).backward();
      EXPECT_LT(max_difference(b.x.grad(), a.x.grad()), bar) << rows;
      EXPECT_LT(max_difference(b.weight.grad(), a.weight.grad()), bar) << rows;
      EXPECT_EQ(b.weight.grad().narrow(0, 17, 7).abs().max().item<double>(), 0.0);
    }
  }
}

TEST(HeadLoss, WithoutGradModeTheValueIsTheSame) {
  const Case c = make_case(c10::kFloat);
  const at::Tensor with = head_cross_entropy_sum(c.x, c.weight, c.targets, c.mask, 17);
  const at::NoGradGuard no_grad;
  const at::Tensor without = head_cross_entropy_sum(c.x, c.weight, c.targets, c.mask, 17);
  EXPECT_TRUE(at::equal(with.detach(), without));
}

TEST(HeadLoss, NarrowProductsAreSummedWide) {
  const Case c = make_case(c10::kFloat);
  const at::Tensor x = c.x.detach().to(c10::kBFloat16).set_requires_grad(true);
  const at::Tensor weight = c.weight.detach().to(c10::kBFloat16).set_requires_grad(true);
  const at::Tensor fused = head_cross_entropy_sum(x, weight, c.targets, c.mask, 17);
  const at::Tensor logits = at::linear(x.detach(), weight.detach());
  const at::Tensor whole = cross_entropy_sum(logits, c.targets, c.mask, 17);
  EXPECT_EQ(fused.scalar_type(), c10::kFloat);
  EXPECT_NEAR(fused.item<float>(), whole.item<float>(), 1e-4);
  fused.backward();
  EXPECT_EQ(weight.grad().scalar_type(), c10::kBFloat16);
}

TEST(HeadLoss, SeedOfAPowerOfTwoChangesNoBit) {
  const Case a = make_case(c10::kFloat), b = make_case(c10::kFloat);
  head_cross_entropy_sum(a.x, a.weight, a.targets, a.mask, 17).mul(8.0).backward();
  head_cross_entropy_sum(b.x, b.weight, b.targets, b.mask, 17, kHeadChunkBytes, 8.0)
      .mul(8.0)
      .backward();
  EXPECT_TRUE(at::equal(a.x.grad(), b.x.grad()));
  EXPECT_TRUE(at::equal(a.weight.grad(), b.weight.grad()));
}

// The probability of an unlikely token is below the smallest fp16 number.
TEST(HeadLoss, SeedKeepsSmallFp16Gradients) {
  const auto run = [](double seed) {
    const at::Tensor x = at::full({1, 1, 1}, 1.0, c10::kHalf).set_requires_grad(true);
    const at::Tensor weight = at::zeros({2, 1}, c10::kHalf);
    weight[1].fill_(-18.0);
    head_cross_entropy_sum(x, weight, long_tensor({0}, {1, 1}), {}, 2, kHeadChunkBytes, seed)
        .mul(1024.0)
        .backward();
    return x.grad().item<float>();
  };
  EXPECT_EQ(run(1.0), 0.0F);
  EXPECT_NEAR(run(1024.0), -18.0 * std::exp(-18.0) * 1024, 5e-6);
}

TEST(HeadLoss, UncountedTokensMayHaveInfiniteLogits) {
  const at::Tensor x = random_normal("infinite", {1, 3, 4}, c10::kFloat).set_requires_grad(true);
  const at::Tensor weight = random_normal("head", {6, 4}, c10::kFloat);
  {
    const at::NoGradGuard no_grad;
    x.narrow(1, 1, 1).fill_(1e38);
    weight.mul_(1e3);
  }
  const at::Tensor loss = head_cross_entropy_sum(x, weight, long_tensor({0, 1, 2}, {1, 3}),
                                                 long_tensor({1, 0, 1}, {1, 3}), 6);
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
  loss.backward();
  EXPECT_TRUE(std::isfinite(x.grad().abs().sum().item<double>()));
  EXPECT_EQ(x.grad().narrow(1, 1, 1).abs().max().item<double>(), 0.0);
}

TEST(HeadLoss, RefusesWhatDoesNotFit) {
  const Case c = make_case(c10::kFloat);
  EXPECT_THROW(head_cross_entropy_sum(c.x, c.weight, c.targets, c.mask, 25), ContractError);
  EXPECT_THROW(head_cross_entropy_sum(c.x, c.weight, c.targets.add(17), {}, 17), ContractError);
  EXPECT_THROW(head_cross_entropy_sum(c.x, c.weight.to(c10::kDouble), c.targets, c.mask, 17),
               ContractError);
  EXPECT_THROW(head_cross_entropy_sum(c.x, c.weight, c.targets.narrow(1, 0, 4), {}, 17),
               ContractError);
}

// What the trainer calls against what sampling calls, tied and untied heads.
TEST(HeadLoss, DecoderLossIsThatOfItsLogits) {
  for (const ModelShape& shape : {testing::tiny_gpt2(), testing::tiny_llama()}) {
    const auto a = testing::make_decoder(shape, c10::kDouble);
    const auto b = testing::make_decoder(shape, c10::kDouble);
    const DecoderInput input{random_tokens("decoder", 2, 7, shape.vocab_size), {}, {}};
    const at::Tensor targets = random_tokens("targets", 2, 7, shape.vocab_size);
    const at::Tensor whole = cross_entropy_sum(a->forward(input), targets, {}, shape.vocab_size);
    const at::Tensor fused = b->loss_sum(input, targets, {});
    EXPECT_NEAR(fused.item<double>(), whole.item<double>(), 1e-11);
    whole.backward();
    fused.backward();
    for (Parameter* parameter : a->parameters()) {
      EXPECT_LT(
          max_difference(parameter->tensor.grad(), b->parameter(parameter->fqn).tensor.grad()),
          1e-11)
          << parameter->fqn;
    }
  }
}

}  // namespace
}  // namespace sx
