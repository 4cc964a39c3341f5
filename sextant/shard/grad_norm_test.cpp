#include "sextant/shard/grad_norm.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

#include "sextant/base/rng.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

std::vector<NamedTensor> random_grads(at::ScalarType dtype) {
  std::vector<NamedTensor> grads;
  const RandomStream random(3, "test.grad_norm");
  std::uint64_t draw = 0;
  for (const std::int64_t n : {1, 4096, 0, 4097, 50'000, 7}) {
    at::Tensor t = at::empty({n}, at::kDouble);
    for (std::int64_t i = 0; i < n; ++i) t.mutable_data_ptr<double>()[i] = random.normal(draw++);
    grads.push_back({"p" + std::to_string(grads.size()), t.to(dtype)});
  }
  return grads;
}

TEST(GradNorm, ThreeFourFive) {
  Communicator solo = Communicator::solo();
  const std::vector<NamedTensor> grads = {{"a", at::full({1}, 3.0, at::kFloat)},
                                          {"b", at::full({1, 1}, -4.0, at::kDouble)}};
  const GradNorm norm = grad_norm(grads, solo);
  EXPECT_EQ(norm.sum_of_squares, 25.0);
  EXPECT_EQ(norm.norm, 5.0);
  EXPECT_TRUE(norm.finite);
  EXPECT_EQ(grad_norm({}, solo).norm, 0.0);
}

TEST(GradNorm, HasTheSameBitsForEveryNumberOfRanks) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto grads = random_grads(dtype);
    Communicator solo = Communicator::solo();
    const double alone = grad_norm(grads, solo).sum_of_squares;
    double plain = 0.0;
    for (const NamedTensor& grad : grads) {
      const at::Tensor t = grad.tensor.to(at::kDouble);
      for (std::int64_t i = 0; i < t.numel(); ++i)
        plain += std::pow(t.const_data_ptr<double>()[i], 2);
    }
    EXPECT_NEAR(alone, plain, 1e-10 * plain);
    for (const std::int64_t world_size : {2, 3, 4, 8}) {
      rank_test(world_size, [&](Communicator& world) {
        EXPECT_EQ(grad_norm(grads, world).sum_of_squares, alone) << toString(dtype);
      });
    }
  }
}

TEST(GradNorm, SeesOneElementThatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    rank_test(3, [&](Communicator& world) {
      std::vector<NamedTensor> grads = random_grads(at::kFloat);
      grads[4].tensor[49'999].fill_(bad);
      EXPECT_FALSE(grad_norm(grads, world).finite);
    });
  }
}

TEST(GradNorm, ClipsOnlyAboveTheLimit) {
  EXPECT_EQ(clip_coefficient(2.0, 1.0), 1.0 / (2.0 + 1e-6));
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(5.0, 0.0), 1.0);
  EXPECT_EQ(clip_coefficient(std::numeric_limits<double>::infinity(), 1.0), 1.0);
  const std::vector<NamedTensor> grads = {{"a", at::full({3}, 2.0, at::kDouble)}};
  EXPECT_EQ(clip_grads(grads, 4.0, 8.0), 1.0);
  EXPECT_EQ(grads[0].tensor[2].item<double>(), 2.0);
  const double coefficient = clip_grads(grads, 4.0, 2.0);
  EXPECT_EQ(grads[0].tensor[2].item<double>(), 2.0 * coefficient);
}

}  // namespace
}  // namespace sx
