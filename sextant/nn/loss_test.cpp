#include "sextant/nn/loss.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sextant/base/check.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

using testing::long_tensor;
using testing::random_normal;
using testing::random_tokens;

TEST(Loss, UniformLogitsCostLogV) {
  for (const std::int64_t vocab : {2, 19, 1000}) {
    const at::Tensor logits = at::ones({2, 3, vocab + 5}, c10::kDouble);
    const at::Tensor loss =
        cross_entropy_sum(logits, random_tokens("uniform", 2, 3, vocab), {}, vocab);
    EXPECT_NEAR(loss.item<double>(), 6 * std::log(static_cast<double>(vocab)), 1e-12);
  }
}

TEST(Loss, CountsOnlyMaskedInTargets) {
  const at::Tensor targets = long_tensor({1, -1, 2, 3, -100, 0}, {2, 3});
  const at::Tensor mask = long_tensor({1, 1, 0, 1, 1, 1}, {2, 3});
  EXPECT_EQ(count_loss_tokens(targets, mask), 3);
  EXPECT_EQ(count_loss_tokens(targets.to(c10::kInt), mask.to(c10::kByte)), 3);
  EXPECT_EQ(count_loss_tokens(targets, {}), 4);
  const at::Tensor logits = at::zeros({2, 3, 4}, c10::kDouble);
  EXPECT_NEAR(cross_entropy_sum(logits, targets, mask, 4).item<double>(), 3 * std::log(4.0), 1e-12);
  EXPECT_EQ(cross_entropy_sum(logits, targets, at::zeros({2, 3}), 4).item<double>(), 0.0);
}

// Against LibTorch's own log_softmax and its derivative.
TEST(Loss, ValueAndGradientAgreeWithTheComposedForm) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    const double bar = dtype == c10::kDouble ? 1e-13 : 1e-5;
    const at::Tensor targets = random_tokens("composed", 3, 5, 17),
                     mask = random_tokens("mask", 3, 5, 2);
    const at::Tensor a = random_normal("logits", {3, 5, 24}, dtype).set_requires_grad(true);
    const at::Tensor b = a.detach().clone().set_requires_grad(true);
    const at::Tensor fused = cross_entropy_sum(a, targets, mask, 17);
    const at::Tensor log_p =
        at::log_softmax(b.narrow(2, 0, 17), -1).gather(2, targets.unsqueeze(2)).squeeze(2);
    const at::Tensor composed = log_p.mul(mask).sum().neg();
    EXPECT_NEAR(fused.item<double>(), composed.item<double>(), 10 * bar);
    fused.mul(0.25).backward();
    composed.mul(0.25).backward();
    EXPECT_LT(testing::max_difference(a.grad(), b.grad()), bar);
    EXPECT_EQ(a.grad().narrow(2, 17, 7).abs().max().item<double>(), 0.0);
  }
}

TEST(Loss, PaddingColumnsNeverMatter) {
  const at::Tensor logits = random_normal("padding", {2, 4, 8}, c10::kFloat);
  const at::Tensor targets = random_tokens("padding", 2, 4, 5);
  const at::Tensor before = cross_entropy_sum(logits, targets, {}, 5);
  logits.narrow(2, 5, 3).fill_(1e30);
  EXPECT_TRUE(at::equal(before, cross_entropy_sum(logits, targets, {}, 5)));
}

TEST(Loss, UncountedTokensMayBeInfinite) {
  at::Tensor logits = random_normal("infinite", {1, 3, 4}, c10::kFloat);
  logits.narrow(1, 1, 1).fill_(std::numeric_limits<float>::infinity());
  const at::Tensor loss =
      cross_entropy_sum(logits, long_tensor({0, 1, 2}, {1, 3}), long_tensor({1, 0, 1}, {1, 3}), 4);
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  at::Tensor logits = at::zeros({1, 2, 4}, c10::kFloat);
  logits.narrow(2, 1, 1).fill_(1e4);
  const at::Tensor loss = cross_entropy_sum(logits, long_tensor({1, 0}, {1, 2}), {}, 4);
  EXPECT_FLOAT_EQ(loss.item<float>(), 1e4f);
}

TEST(Loss, NarrowLogitsAreSummedWide) {
  const at::Tensor logits =
      random_normal("bf16", {2, 8, 16}, c10::kFloat).to(c10::kBFloat16).set_requires_grad(true);
  const at::Tensor targets = random_tokens("bf16", 2, 8, 16);
  const at::Tensor loss = cross_entropy_sum(logits, targets, {}, 16);
  const at::Tensor wide = cross_entropy_sum(logits.detach().to(c10::kFloat), targets, {}, 16);
  EXPECT_TRUE(at::equal(loss.detach(), wide));
  loss.backward();
  EXPECT_EQ(logits.grad().scalar_type(), c10::kBFloat16);
}

TEST(Loss, RefusesTargetsOutsideTheVocabulary) {
  const at::Tensor logits = at::zeros({1, 2, 8});
  EXPECT_THROW(cross_entropy_sum(logits, long_tensor({0, 5}, {1, 2}), {}, 5), ContractError);
  EXPECT_NO_THROW(
      cross_entropy_sum(logits, long_tensor({0, 5}, {1, 2}), long_tensor({1, 0}, {1, 2}), 5));
  EXPECT_THROW(cross_entropy_sum(logits, long_tensor({0}, {1, 1}), {}, 5), ContractError);
  EXPECT_THROW(cross_entropy_sum(logits, long_tensor({0, 0}, {1, 2}), {}, 9), ContractError);
}

}  // namespace
}  // namespace sx
