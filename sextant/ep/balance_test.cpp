#include "sextant/ep/balance.h"

#include "sextant/nn/recompute.h"
#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::random_normal;

/// The four tokens of the worked example: scores of four experts, one chosen.
Routing example() {
  Routing routing;
  routing.scores_TE = at::empty({4, 4}, c10::kDouble);
  const double scores[] = {.7, .1, .1, .1, .6, .2, .1, .1, .1, .6, .2, .1, .25, .25, .25, .25};
  std::copy_n(scores, 16, routing.scores_TE.mutable_data_ptr<double>());
  // The choice by these scores, the tie included.
  routing.experts_TK =
      route(routing.scores_TE.log(), {}, {}, {.num_experts = 4, .topk = 1}).experts_TK;
  routing.logits_TE = routing.scores_TE.log();
  return routing;
}

TEST(Balance, AuxiliaryLossAsWorkedOut) {
  const Routing routing = example();
  Communicator solo = Communicator::solo();
  const RouterOptions router{.num_experts = 4, .topk = 1};
  const at::Tensor counts = count_choices(routing.experts_TK, 1, 4);
  EXPECT_TRUE(at::equal(counts, testing::long_tensor({3, 1, 0, 0}, {1, 4})));
  const BalanceInput input{.routing = routing, .padding_T = {}, .routed = {4}};
  for (const AuxScope scope : {AuxScope::kSequence, AuxScope::kMicrobatch}) {
    EXPECT_NEAR(aux_loss(input, scope, router, solo, {}).item<double>(), 1.525, 1e-14);
  }
  // Uniform shares: 1, whatever the scores.
  EXPECT_NEAR(
      aux_loss(input, AuxScope::kGlobal, router, solo, BalanceState(4, 1).shares()).item<double>(),
      1.0, 1e-14);
  // Scores are probabilities here: logsumexp of their logs is 0.
  EXPECT_NEAR(z_loss(input).item<double>(), 0.0, 1e-14);
}

TEST(Balance, ZLossIsTheMeanSquareOfLogSumExp) {
  Routing routing;
  routing.logits_TE = at::zeros({2, 4}, c10::kDouble);
  routing.experts_TK = at::zeros({2, 1}, c10::kInt);
  const double log4 = std::log(4.0);
  EXPECT_NEAR(z_loss({.routing = routing, .padding_T = {}, .routed = {8}}).item<double>(),
              2 * log4 * log4 / 8, 1e-15);
}

TEST(Balance, AttachedLossAddsItsGradientAndNothingElse) {
  at::Tensor x = random_normal("x", {3}, c10::kDouble).set_requires_grad(true);
  const at::Tensor y = attach_loss(x.mul(2.0), x.square().sum(), 0.25);
  EXPECT_TRUE(at::equal(y, x.detach().mul(2.0)));
  torch::autograd::backward({y.sum()}, {});
  EXPECT_LT(testing::max_difference(x.grad(), x.detach().mul(0.5).add(2.0)), 1e-15);
}

TEST(Balance, BiasMovesByTheSignOfTheExcess) {
  BalanceState state(4, 2);
  Communicator solo = Communicator::solo();
  state.count(testing::long_tensor({3, 1, 0, 0, 1, 1, 2, 0}, {2, 4}));  // 4 2 2 0, mean 2
  at::Tensor bias = at::zeros({4}, c10::kFloat);
  state.finish_step(solo, bias, 0.5);
  EXPECT_EQ(bias[0].item<float>(), -0.5f);
  EXPECT_EQ(bias[1].item<float>(), 0.0f);
  EXPECT_EQ(bias[3].item<float>(), 0.5f);
  EXPECT_NEAR(state.shares()[0].item<double>(), 1.0, 1e-15) << "4 of 8 choices, 2 a token";
  const at::Tensor before = state.shares().clone();
  state.finish_step(solo, bias, 0.5);
  EXPECT_TRUE(at::equal(state.shares(), before)) << "a step without tokens changes nothing";
}

TEST(Balance, BiasIsTheSameOnEveryNumberOfRanks) {
  const at::Tensor counts =
      testing::long_tensor({5, 0, 1, 2, 0, 3, 3, 2, 4, 4, 0, 0, 1, 1, 1, 5}, {4, 4});
  BalanceState whole(4, 2);
  Communicator solo = Communicator::solo();
  at::Tensor want = at::zeros({4}, c10::kFloat);
  whole.count(counts);
  whole.finish_step(solo, want, 0.001);
  rank_test(4, [&](Communicator& world) {
    BalanceState state(4, 2);
    at::Tensor bias = at::zeros({4}, c10::kFloat);
    state.count(counts.narrow(0, world.coord(), 1));
    state.finish_step(world, bias, 0.001);
    EXPECT_TRUE(at::equal(bias, want));
    EXPECT_TRUE(at::equal(state.shares(), whole.shares()));
  });
}

}  // namespace
}  // namespace sx
