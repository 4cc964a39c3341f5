#include "sextant/ep/grouped_mlp.h"

#include <ATen/ops/mm.h>

#include <limits>

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::random_normal;

TEST(GroupedLinear, IsTheLoopAndEmptyGroupsHaveZeroGradient) {
  const std::vector<std::int64_t> rows{3, 0, 5, 0};
  at::Tensor x = random_normal("x", {8, 6}, c10::kDouble).set_requires_grad(true);
  at::Tensor w = random_normal("w", {4, 5, 6}, c10::kDouble).set_requires_grad(true);
  const at::Tensor y = grouped_linear(x, w, rows);
  at::Tensor x2 = x.detach().clone().set_requires_grad(true);
  at::Tensor w2 = w.detach().clone().set_requires_grad(true);
  const at::Tensor want = at::cat({at::linear(x2.narrow(0, 0, 3), w2.select(0, 0)),
                                   at::linear(x2.narrow(0, 3, 5), w2.select(0, 2))});
  const at::Tensor g = random_normal("g", {8, 5}, c10::kDouble);
  torch::autograd::backward({y}, {g});
  torch::autograd::backward({want}, {g});
  EXPECT_LT(testing::relative_error(y, want), 1e-14);
  EXPECT_LT(testing::relative_error(x.grad(), x2.grad()), 1e-14);
  EXPECT_LT(testing::relative_error(w.grad(), w2.grad()), 1e-14);
  EXPECT_EQ(w.grad().sizes(), w.sizes());
  EXPECT_EQ(w.grad().select(0, 1).abs().max().item<double>(), 0.0);
}

TEST(GroupedLinear, RowsAfterTheLastGroupAreNeverRead) {
  at::Tensor x = random_normal("x", {6, 3}, c10::kFloat);
  x.narrow(0, 4, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  x.set_requires_grad(true);
  at::Tensor w = random_normal("w", {2, 4, 3}, c10::kFloat).set_requires_grad(true);
  const at::Tensor y = grouped_linear(x, w, {1, 3});
  EXPECT_EQ(y.narrow(0, 4, 2).abs().max().item<float>(), 0.0f);
  at::Tensor g = random_normal("g", {6, 4}, c10::kFloat);
  g.narrow(0, 4, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  torch::autograd::backward({y}, {g});
  EXPECT_TRUE(w.grad().isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  EXPECT_THROW(grouped_linear(x, w, {4, 3}), ContractError);
}

TEST(GroupedLinear, NoRowsAtAll) {
  at::Tensor x = at::zeros({0, 3}, c10::kFloat).set_requires_grad(true);
  at::Tensor w = random_normal("w", {2, 4, 3}, c10::kFloat).set_requires_grad(true);
  torch::autograd::backward({grouped_linear(x, w, {0, 0}).sum()}, {});
  EXPECT_EQ(w.grad().abs().max().item<float>(), 0.0f);
  EXPECT_EQ(x.grad().size(0), 0);
}

TEST(Experts, InitialValuesDoNotDependOnTheLayout) {
  const ModelShape shape = testing::moe_shape(4, 2);
  const auto make = [&](std::int64_t ep, std::int64_t at, std::int64_t etp, std::int64_t part) {
    Module root;
    Experts experts(root, "moe.experts", shape, ep, at, etp, part);
    root.allocate(c10::kFloat);
    experts.init(7);
    std::map<std::string, at::Tensor> values;
    for (Parameter* parameter : experts.parameters())
      values[parameter->fqn] = parameter->tensor.detach();
    EXPECT_TRUE(uninitialized_parameters(root).empty());
    return values;
  };
  const auto whole = make(1, 0, 1, 0);
  // What a whole tensor of that name is filled with elsewhere.
  at::Tensor plain = at::empty({4, 8, 6}, c10::kFloat);
  fill_init(plain, {InitKind::kNormal, 0.0, shape.init_std / 2}, 7, "moe.experts.down.weight", 48);
  EXPECT_TRUE(at::equal(whole.at("moe.experts.down.weight"), plain));
  for (std::int64_t at = 0; at < 2; ++at) {
    for (std::int64_t part = 0; part < 3; ++part) {
      for (const auto& [fqn, values] : make(2, at, 3, part)) {
        EXPECT_TRUE(at::equal(values, testing::own_part(whole.at(fqn), fqn, {1, 2, 3}, at, part)))
            << fqn;
      }
    }
  }
}

}  // namespace
}  // namespace sx
