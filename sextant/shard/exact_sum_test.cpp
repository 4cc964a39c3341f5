#include "sextant/shard/exact_sum.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <limits>

#include "sextant/base/rng.h"

namespace sx {
namespace {

TEST(ExactSum, RoundsOnceToNearestEven) {
  const double eps = std::ldexp(1.0, -53);
  ExactSum sum;
  sum.add(1.0);
  sum.add(eps);
  EXPECT_EQ(sum.value(), 1.0);  // a tie goes to even
  sum.add(std::ldexp(1.0, -1000));
  EXPECT_EQ(sum.value(), 1.0 + std::ldexp(1.0, -52));  // and not when anything is below
  ExactSum odd;
  odd.add(1.0 + std::ldexp(1.0, -52));
  odd.add(eps);
  EXPECT_EQ(odd.value(), 1.0 + std::ldexp(1.0, -51));
  ExactSum cancel;
  for (const double x : {1e300, 1.0, -1e300, std::ldexp(1.0, -1074)}) cancel.add(x);
  EXPECT_EQ(cancel.value(), 1.0);
  EXPECT_EQ(ExactSum().value(), 0.0);
  ExactSum carried;
  carried.add(std::ldexp(1.0, 53) - 1.0);
  carried.add(0.5);
  EXPECT_EQ(carried.value(), std::ldexp(1.0, 53));
}

TEST(ExactSum, HoldsTheEndsOfTheRange) {
  ExactSum tiny;
  for (int i = 0; i < 3; ++i) tiny.add(std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(tiny.value(), 3 * std::numeric_limits<double>::denorm_min());
  ExactSum huge;
  huge.add(std::numeric_limits<double>::max());
  EXPECT_EQ(huge.value(), std::numeric_limits<double>::max());
  huge.add(std::numeric_limits<double>::max());
  EXPECT_EQ(huge.value(), std::numeric_limits<double>::infinity());
  huge.add(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(huge.finite());
  EXPECT_TRUE(std::isnan(huge.value()));
}

/// Values over `decades` decades; `decades` = 40 leaves the fast way and takes the slow one.
at::Tensor values(std::int64_t n, double decades, std::uint64_t seed, at::ScalarType dtype) {
  const RandomStream random(seed, "test.exact_sum");
  at::Tensor t = at::empty({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto j = static_cast<std::uint64_t>(2 * i);
    t.mutable_data_ptr<double>()[i] =
        random.normal(j) * std::pow(10.0, -decades * random.uniform(j + 1));
  }
  return t.to(dtype);
}

// Against a sum in long double with error compensation, and against any cut and order of itself.
TEST(ExactSum, SquaresDoNotDependOnTheCut) {
  std::uint64_t seed = 0;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const double decades : {0.0, 3.0, 40.0}) {
      const at::Tensor t = values(30'011, decades, ++seed, dtype);
      ExactSum whole;
      whole.add_squares(t);
      long double sum = 0, lost = 0;
      const at::Tensor wide = t.to(at::kDouble);
      for (std::int64_t i = 0; i < t.numel(); ++i) {
        const double v = wide.const_data_ptr<double>()[i];
        const long double square = v * v, next = sum + square;
        lost += square - (next - sum);
        sum = next;
      }
      EXPECT_EQ(whole.value(), static_cast<double>(sum + lost)) << decades << toString(dtype);

      const RandomStream random(seed, "test.exact_sum_cut");
      for (int trial = 0; trial < 4; ++trial) {
        std::array<std::int64_t, ExactSum::kLimbs> limbs{};
        std::int64_t at = 0;
        for (std::uint64_t draw = 0; at < t.numel(); ++draw) {
          const auto n = std::min<std::int64_t>(
              static_cast<std::int64_t>(
                  random.u64(draw + 100 * static_cast<std::uint64_t>(trial)) % 9000 + 1),
              t.numel() - at);
          ExactSum part;
          part.add_squares(t.narrow(0, at, n));
          const auto own = part.limbs();
          for (std::size_t i = 0; i < limbs.size(); ++i) limbs[i] += own[i];
          at += n;
        }
        EXPECT_EQ(ExactSum::from_limbs(limbs, true).value(), whole.value()) << "seed " << seed;
      }
    }
  }
}

TEST(ExactSum, SeesWhatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    for (const double other : {0.0, 1.0}) {
      at::Tensor t = at::full({5000}, other, at::kFloat);
      t[4999].fill_(bad);
      ExactSum sum;
      sum.add_squares(t);
      EXPECT_FALSE(sum.finite()) << bad << " " << other;
    }
  }
}

}  // namespace
}  // namespace sx
