#include "sextant/ep/router.h"

#include <limits>

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::random_normal;

at::Tensor row(const std::vector<double>& values) {
  at::Tensor out = at::empty({1, static_cast<std::int64_t>(values.size())}, c10::kDouble);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<double>());
  return out;
}

std::vector<std::int32_t> chosen(const Routing& routing) {
  const at::Tensor host = routing.experts_TK.contiguous();
  return {host.const_data_ptr<std::int32_t>(), host.const_data_ptr<std::int32_t>() + host.numel()};
}

TEST(Router, SigmoidGroupLimitedWithBiasAsPublished) {
  const at::Tensor logits = row({2, -1, 0.5, 0, 1, -2, 3, -3});
  const at::Tensor bias = row({0, 0, 0.3, 0.3, 0, 0, -0.2, 0})[0].to(c10::kFloat);
  RouterOptions options{.num_experts = 8, .topk = 2, .score = RouterScore::kSigmoid};
  options.topk_scale = 2.5;
  options.groups = 4;
  options.topk_groups = 2;
  options.score_bias = true;
  options.dtype = c10::kDouble;
  const Routing routing = route(logits, bias, {}, options);
  EXPECT_EQ(chosen(routing), (std::vector<std::int32_t>{2, 0}));
  EXPECT_NEAR(routing.weights_TK[0][0].item<double>(), 1.0351848949400193, 1e-14);
  EXPECT_NEAR(routing.weights_TK[0][1].item<double>(), 1.464815105059981, 1e-14);
  EXPECT_NEAR(routing.scores_TE.sum().item<double>(), 1.0, 1e-14) << "normalised, without bias";
  // Without groups the bias still moves the choice only.
  options.groups = options.topk_groups = 1;
  options.topk = 3;
  EXPECT_EQ(chosen(route(logits, bias, {}, options)), (std::vector<std::int32_t>{2, 0, 3}));
  EXPECT_EQ(chosen(route(logits, {}, {}, options)), (std::vector<std::int32_t>{6, 0, 4}));
}

TEST(Router, EqualScoresGoToTheLowerExpert) {
  RouterOptions options{.num_experts = 6, .topk = 3};
  EXPECT_EQ(chosen(route(row({1, 1, 1, 1, 1, 1}), {}, {}, options)),
            (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(chosen(route(row({0, 2, 1, 2, 1, 1}), {}, {}, options)),
            (std::vector<std::int32_t>{1, 3, 2}));
  options.groups = 3;
  options.topk_groups = 1;
  options.topk = 2;
  EXPECT_EQ(chosen(route(row({1, 1, 1, 1, 1, 1}), {}, {}, options)),
            (std::vector<std::int32_t>{0, 1}));
}

TEST(Router, NotANumberIsChosenLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RouterOptions options{.num_experts = 4, .topk = 2, .score = RouterScore::kSigmoid};
  EXPECT_EQ(chosen(route(row({nan, -5, nan, -9}), {}, {}, options)),
            (std::vector<std::int32_t>{1, 3}));
}

TEST(Router, SoftmaxBeforeAndAfterTheChoice) {
  const at::Tensor logits = random_normal("logits", {20, 6}, c10::kDouble);
  RouterOptions options{.num_experts = 6, .topk = 2};
  const Routing after = route(logits, {}, {}, options);
  const auto [values, index] = at::topk(logits, 2, 1);
  EXPECT_TRUE(at::equal(after.experts_TK.to(c10::kLong), index));
  EXPECT_LT(testing::max_difference(after.weights_TK, at::softmax(values, 1)), 1e-15);
  options.norm_before_topk = true;
  const Routing before = route(logits, {}, {}, options);
  EXPECT_LT(testing::max_difference(before.weights_TK,
                                    std::get<0>(at::topk(at::softmax(logits, 1), 2, 1))),
            1e-15);
  options.renormalise = true;
  EXPECT_LT(testing::max_difference(route(logits, {}, {}, options).weights_TK, after.weights_TK),
            1e-15)
      << "a softmax over the chosen is the softmax over all, renormalised";
}

TEST(Router, SquareRootOfSoftplus) {
  RouterOptions options{.num_experts = 2, .topk = 1, .score = RouterScore::kSqrtSoftplus};
  const Routing routing = route(row({0, -1}), {}, {}, options);
  EXPECT_NEAR(routing.weights_TK[0][0].item<double>(), std::sqrt(std::log(2.0)), 1e-15);
}

TEST(Router, GradientsAgreeWithFiniteDifferences) {
  for (const RouterScore score :
       {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSqrtSoftplus}) {
    for (const bool before : {false, true}) {
      RouterOptions options{.num_experts = 6, .topk = 3, .score = score};
      options.norm_before_topk = before;
      options.topk_scale = 1.5;
      at::Tensor logits = random_normal("logits", {4, 6}, c10::kDouble).set_requires_grad(true);
      const at::Tensor g = random_normal("g", {4, 3}, c10::kDouble);
      const at::Tensor h = random_normal("h", {4, 6}, c10::kDouble);
      const auto loss = [&](const at::Tensor& at) {
        const Routing routing = route(at, {}, {}, options);
        return routing.weights_TK.mul(g).sum().add(routing.scores_TE.mul(h).sum());
      };
      torch::autograd::backward({loss(logits)}, {});
      const at::Tensor direction = random_normal("d", {4, 6}, c10::kDouble);
      const at::Tensor at = logits.detach();
      const double above = loss(at.add(direction, 1e-6)).item<double>();
      const double below = loss(at.add(direction, -1e-6)).item<double>();
      EXPECT_NEAR((above - below) / 2e-6, logits.grad().mul(direction).sum().item<double>(), 1e-8);
    }
  }
}

TEST(Router, PaddingChoosesNobodyWhateverItHolds) {
  Module root;
  RouterOptions options{.num_experts = 5, .topk = 2, .dtype = c10::kDouble};
  Router router(root, "router", 3, options, 0.5);
  root.allocate(c10::kDouble);
  testing::randomize(root, 1);
  at::Tensor x = random_normal("x", {4, 3}, c10::kDouble);
  x.select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  x.set_requires_grad(true);
  at::Tensor padding = at::zeros({4}, c10::kBool);
  padding[1] = true;
  const Routing routing = router.forward(x, padding);
  EXPECT_EQ(chosen(routing)[2], -1);
  EXPECT_EQ(chosen(routing)[3], -1);
  EXPECT_GE(chosen(routing)[0], 0);
  torch::autograd::backward(
      {routing.weights_TK.mul(random_normal("g", {4, 2}, c10::kDouble)).sum()}, {});
  EXPECT_TRUE(router.weight().tensor.grad().isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(Router, RefusesSizesThatDoNotFit) {
  Module root;
  EXPECT_THROW(Router(root, "a", 3, {.num_experts = 4, .topk = 5}, 0.1), ContractError);
  EXPECT_THROW(Router(root, "b", 3, {.num_experts = 6, .topk = 2, .groups = 4}, 0.1),
               ContractError);
}

}  // namespace
}  // namespace sx
