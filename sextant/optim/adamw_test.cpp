#include "sextant/optim/adamw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/tensor/padded.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

at::Tensor random(const std::string& name, const std::vector<std::int64_t>& shape,
                  c10::ScalarType dtype, std::uint64_t salt = 0) {
  const RandomStream stream(7, "test." + name, salt);
  at::Tensor out = make_padded(shape, dtype);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.view({-1}).narrow(0, i, 1).fill_(stream.normal(static_cast<std::uint64_t>(i)));
  }
  return out;
}

std::vector<double> to_doubles(const at::Tensor& t) {
  const at::Tensor d = t.to(c10::kDouble).contiguous();
  const auto* data = d.const_data_ptr<double>();
  return {data, data + d.numel()};
}

OptimParam param(const std::string& name, const at::Tensor& tensor, bool decay) {
  return {name, padded_block(tensor), tensor.sizes().vec(), decay};
}

/// The formula of the header, in double, element by element.
struct Reference {
  std::vector<double> p, m, v;
  void step(const std::vector<double>& g, int t, double lr, const AdamWOptions& o, double decay) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] -= lr * decay * p[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double mh = m[i] / (1 - std::pow(o.beta1, t));
      const double vh = v[i] / (1 - std::pow(o.beta2, t));
      p[i] -= lr * mh / (std::sqrt(vh) + o.eps);
    }
  }
};

TEST(AdamW, AgreesWithTheFormulaInDouble) {
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  const at::Tensor weight = random("weight", {5, 7}, c10::kDouble);
  const at::Tensor bias = random("bias", {7}, c10::kDouble);
  Reference ref_w{to_doubles(weight), std::vector<double>(35), std::vector<double>(35)};
  Reference ref_b{to_doubles(bias), std::vector<double>(7), std::vector<double>(7)};
  AdamW adamw(options, {param("w", weight, true), param("b", bias, false)});
  for (int t = 1; t <= 10; ++t) {
    const at::Tensor gw = random("gw", {5, 7}, c10::kDouble, t),
                     gb = random("gb", {7}, c10::kDouble, t);
    const double lr = 1e-2 / t;
    adamw.step(std::vector<at::Tensor>{gw, gb}, lr);
    ref_w.step(to_doubles(gw), t, lr, options, 0.1);
    ref_b.step(to_doubles(gb), t, lr, options, 0.0);
  }
  EXPECT_EQ(adamw.num_steps(), 10);
  const auto expect_near = [](const at::Tensor& t, const std::vector<double>& want) {
    const std::vector<double> have = to_doubles(t);
    // The kernel's bias correction takes the step from fp32 and its powers in double: last digits
    // may differ.
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-13);
  };
  expect_near(weight, ref_w.p);
  expect_near(bias, ref_b.p);
  expect_near(adamw.exp_avg("w"), ref_w.m);
  expect_near(adamw.exp_avg_sq("b"), ref_b.v);
}

TEST(AdamW, DecayOfNormsAndBiasesIsAKey) {
  const at::Tensor bias = at::full({32}, 2.0, c10::kDouble);
  AdamW adamw({.weight_decay = 0.5, .decay_norm_and_bias = true}, {param("b", bias, false)});
  adamw.step(std::vector<at::Tensor>{at::full({32}, 0.0, c10::kDouble)}, 0.1);
  EXPECT_DOUBLE_EQ(bias.sum().item<double>(), 32 * 2.0 * 0.95);
}

// A parameter cut at any place and stepped in two parts has the bits of the whole; padding stays
// zero.
TEST(AdamW, AnyCutGivesTheSameBits) {
  prepare_rank_thread({});
  for (const c10::ScalarType dtype : {c10::kFloat, c10::kDouble}) {
    for (const std::int64_t cut : {1, 31, 33, 64, 75}) {
      constexpr std::int64_t kCount = 77;
      const at::Tensor whole = random("whole", {kCount}, dtype);
      at::Tensor left = make_padded({cut}, dtype), right = make_padded({kCount - cut}, dtype);
      left.copy_(whole.narrow(0, 0, cut));
      right.copy_(whole.narrow(0, cut, kCount - cut));
      AdamW one({}, {param("p", whole, true)});
      AdamW two({}, {param("l", left, true), param("r", right, true)});
      for (std::uint64_t t = 1; t <= 3; ++t) {
        const at::Tensor grad = random("grad", {kCount}, dtype, t);
        one.step(std::vector<at::Tensor>{grad}, 1e-3);
        two.step(std::vector<at::Tensor>{grad.narrow(0, 0, cut), grad.narrow(0, cut, kCount - cut)},
                 1e-3);
      }
      EXPECT_TRUE(at::equal(whole.narrow(0, 0, cut), left)) << cut;
      EXPECT_TRUE(at::equal(whole.narrow(0, cut, kCount - cut), right)) << cut;
      EXPECT_TRUE(at::equal(one.exp_avg_sq("p").narrow(0, cut, kCount - cut), two.exp_avg_sq("r")));
      const at::Tensor block = padded_block(whole);
      EXPECT_EQ(block.narrow(0, kCount, block.numel() - kCount).abs().sum().item<double>(), 0.0);
    }
  }
}

// Writing the state into a fresh optimizer continues bit for bit.
TEST(AdamW, StateByNameContinuesARun) {
  const at::Tensor a = random("a", {6, 6}, c10::kFloat);
  AdamW first({}, {param("w", a, true)});
  first.step(std::vector<at::Tensor>{random("g", {6, 6}, c10::kFloat, 1)}, 1e-3);
  at::Tensor b = make_padded({6, 6}, c10::kFloat);
  b.copy_(a);
  AdamW second({}, {param("w", b, true)});
  second.exp_avg("w").copy_(first.exp_avg("w"));
  second.exp_avg_sq("w").copy_(first.exp_avg_sq("w"));
  second.set_num_steps(first.num_steps());
  for (AdamW* optimizer : {&first, &second}) {
    optimizer->step(std::vector<at::Tensor>{random("g", {6, 6}, c10::kFloat, 2)}, 1e-3);
  }
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_THROW(first.exp_avg("v"), ContractError);
}

TEST(AdamW, RefusesWrongBlocksAndGradients) {
  const at::Tensor w = random("w", {3, 3}, c10::kFloat);
  EXPECT_THROW(AdamW({}, {OptimParam{"w", w.view({9}), {3, 3}, true}}), ContractError);
  AdamW adamw({}, {param("w", w, true)});
  EXPECT_THROW(adamw.step({}, 1e-3), ContractError);
  EXPECT_THROW(adamw.step(std::vector<at::Tensor>{at::full({3}, 1.0)}, 1e-3), ContractError);
  EXPECT_THROW(adamw.step(std::vector<at::Tensor>{at::full({3, 3}, 1.0, c10::kDouble)}, 1e-3),
               ContractError);
}

}  // namespace
}  // namespace sx
