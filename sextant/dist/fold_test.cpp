#include "sextant/dist/detail/fold.h"

#include <gtest/gtest.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"

namespace sx {
namespace {

template <class T>
std::vector<T> fold_of(at::ScalarType dtype, ReduceOp op,
                       const std::vector<std::vector<T>>& ranks) {
  std::vector<const std::byte*> inputs;
  for (const auto& rank : ranks) inputs.push_back(reinterpret_cast<const std::byte*>(rank.data()));
  std::vector<T> out(ranks[0].size());
  detail::fold(dtype, op, inputs, reinterpret_cast<std::byte*>(out.data()),
               static_cast<std::int64_t>(out.size()));
  return out;
}

TEST(Fold, GoesFromTheFirstRankToTheLast) {
  const double tiny = std::ldexp(1.0, -53);
  EXPECT_EQ(fold_of<double>(at::kDouble, ReduceOp::kSum, {{1.0}, {tiny}, {tiny}, {tiny}})[0], 1.0);
  EXPECT_EQ(fold_of<double>(at::kDouble, ReduceOp::kSum, {{1e16}, {1.0}, {-1e16}, {1.0}})[0], 1.0);
  // What another order would give: pairs first.
  EXPECT_EQ((1.0 + tiny) + (tiny + tiny), 0x1.0000000000001p+0);
  EXPECT_EQ((1e16 + 1.0) + (-1e16 + 1.0), 0.0);
}

TEST(Fold, AccumulatesSixteenBitFloatsInSingleAndRoundsOnce) {
  std::vector<std::vector<c10::BFloat16>> bf16(9, {c10::BFloat16(0x1p-8f)});
  bf16[0] = {c10::BFloat16(1.0f)};
  EXPECT_EQ(static_cast<float>(fold_of(at::kBFloat16, ReduceOp::kSum, bf16)[0]), 1.03125f);
  std::vector<std::vector<c10::Half>> fp16(9, {c10::Half(0x1p-11f)});
  fp16[0] = {c10::Half(1.0f)};
  EXPECT_EQ(static_cast<float>(fold_of(at::kHalf, ReduceOp::kSum, fp16)[0]), 1.0f + 0x1p-8f);
}

TEST(Fold, BeginsWithTheFirstValueNotWithZero) {
  const auto sum = fold_of<double>(at::kDouble, ReduceOp::kSum, {{-0.0}, {-0.0}});
  EXPECT_TRUE(std::signbit(sum[0]));
  const auto alone = fold_of<float>(at::kFloat, ReduceOp::kSum, {{-0.0f}});
  EXPECT_TRUE(std::signbit(alone[0]));
}

TEST(Fold, HandsOnNotANumberFromAnyRank) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    const auto out = fold_of<float>(at::kFloat, op, {{nan, 1, 1}, {1, nan, 1}, {1, 1, nan}});
    for (const float x : out) EXPECT_TRUE(std::isnan(x)) << to_string(op);
  }
  const auto bf16 = fold_of<c10::BFloat16>(at::kBFloat16, ReduceOp::kMax,
                                           {{c10::BFloat16(nan)}, {c10::BFloat16(2.0f)}});
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16[0])));
}

TEST(Fold, WrapsIntegers) {
  EXPECT_EQ(fold_of<std::int8_t>(at::kChar, ReduceOp::kSum, {{127}, {2}})[0], -127);
  EXPECT_EQ(fold_of<std::uint8_t>(at::kByte, ReduceOp::kSum, {{250}, {10}})[0], 4);
  EXPECT_EQ(fold_of<std::int64_t>(at::kLong, ReduceOp::kSum,
                                  {{std::numeric_limits<std::int64_t>::max()}, {1}})[0],
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(fold_of<std::int32_t>(at::kInt, ReduceOp::kMin, {{3}, {-7}, {5}})[0], -7);
}

// Every bf16 bit pattern comes through unchanged, and random sums round as LibTorch's own type
// does.
TEST(Fold, RoundsBfloat16AsLibTorch) {
  std::vector<c10::BFloat16> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.emplace_back(static_cast<std::uint16_t>(bits), c10::BFloat16::from_bits());
  }
  const auto same = fold_of<c10::BFloat16>(at::kBFloat16, ReduceOp::kSum, {all});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(static_cast<float>(all[i]))) {
      EXPECT_TRUE(std::isnan(static_cast<float>(same[i])));
    } else {
      ASSERT_EQ(same[i].x, all[i].x);
    }
  }
  const RandomStream random(1, "test.fold");
  std::vector<std::vector<c10::BFloat16>> ranks(3);
  for (std::size_t i = 0; i < 30'000; ++i) {
    ranks[i % 3].push_back(c10::BFloat16(static_cast<float>(random.normal(i) * 8.0)));
  }
  const auto sums = fold_of(at::kBFloat16, ReduceOp::kSum, ranks);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float exact = static_cast<float>(ranks[0][i]) + static_cast<float>(ranks[1][i]) +
                        static_cast<float>(ranks[2][i]);
    ASSERT_EQ(sums[i].x, c10::BFloat16(exact).x) << "seed 1, element " << i;
  }
}

// Lengths around the block of 16 KiB against the plain loop.
TEST(Fold, DoesNotDependOnBlocks) {
  const RandomStream random(7, "test.fold");
  for (const std::size_t n : {1u, 2047u, 2048u, 2049u, 4095u, 4096u, 4097u, 10'000u}) {
    std::vector<std::vector<double>> ranks(5, std::vector<double>(n));
    for (std::size_t r = 0; r < 5; ++r) {
      for (std::size_t i = 0; i < n; ++i) ranks[r][i] = random.normal(r * n + i);
    }
    const auto out = fold_of(at::kDouble, ReduceOp::kSum, ranks);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[i], ranks[0][i] + ranks[1][i] + ranks[2][i] + ranks[3][i] + ranks[4][i])
          << "seed 7, length " << n << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace sx
