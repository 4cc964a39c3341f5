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
  std::byte* const outs[1] = {reinterpret_cast<std::byte*>(out.data())};
  detail::fold(dtype, op, inputs, outs, static_cast<std::int64_t>(out.size()));
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

// Every half comes through, and sums round as LibTorch's own type does.
TEST(Fold, RoundsHalfAsLibTorch) {
  std::vector<c10::Half> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.emplace_back(static_cast<std::uint16_t>(bits), c10::Half::from_bits());
  }
  const auto same = fold_of<c10::Half>(at::kHalf, ReduceOp::kSum, {all});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(static_cast<float>(all[i]))) {
      EXPECT_TRUE(std::isnan(static_cast<float>(same[i])));
    } else {
      ASSERT_EQ(same[i].x, all[i].x);
    }
  }
  // Each half plus each of these: overflow, ties, results below the normal range.
  for (const float x : {65504.0f, 31.0f, 1.0f, 0x1p-11f, 0x1p-14f, 0x1p-24f, -0x1.004p-14f}) {
    const std::vector<c10::Half> other(all.size(), c10::Half(x));
    const auto sums = fold_of<c10::Half>(at::kHalf, ReduceOp::kSum, {all, other});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float exact = static_cast<float>(all[i]) + static_cast<float>(other[i]);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(static_cast<float>(sums[i])));
      } else {
        ASSERT_EQ(sums[i].x, c10::Half(exact).x) << i << " plus " << x;
      }
    }
  }
}

// All instruction sets, both ways to store, odd lengths and addresses: the same bits.
TEST(Fold, EveryInstructionSetGivesTheSameBits) {
  const RandomStream random(11, "test.fold");
  constexpr std::int64_t kBytes = 3000;
  std::vector<std::vector<std::byte>> ranks(3);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t i = 0; i < kBytes + 8; ++i) {
      // Bit 6 off: no element is NaN, whose payload nobody promises.
      ranks[r].push_back(static_cast<std::byte>(random.u64(r * 4000 + i) & 0xbf));
    }
  }
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong,
                                     at::kInt, at::kChar, at::kByte}) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      for (const std::int64_t numel : {std::int64_t{1}, std::int64_t{63}, kBytes / size}) {
        std::vector<const std::byte*> inputs;
        for (const auto& rank : ranks) inputs.push_back(rank.data() + size);  // not on a line
        std::vector<std::byte> want(static_cast<std::size_t>(numel * size));
        std::byte* const want_out[1] = {want.data()};
        detail::fold(dtype, op, inputs, want_out, numel, detail::StoreMode::kCached,
                     detail::Isa::kBase);
        for (int isa = 0; isa <= static_cast<int>(detail::best_isa()); ++isa) {
          for (const auto mode : {detail::StoreMode::kCached, detail::StoreMode::kStream}) {
            std::vector<std::byte> got(static_cast<std::size_t>((numel + 1) * size));
            std::byte* const out[1] = {got.data() + size};
            detail::fold(dtype, op, inputs, out, numel, mode, static_cast<detail::Isa>(isa));
            ASSERT_EQ(std::memcmp(got.data() + size, want.data(), want.size()), 0)
                << toString(dtype) << " " << to_string(op) << " x " << numel << ", isa " << isa;
          }
        }
      }
    }
  }
}

TEST(Fold, WritesEveryOutputAlsoOverItsInputs) {
  std::vector<std::vector<float>> ranks(4, std::vector<float>(1001));
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t i = 0; i < 1001; ++i) ranks[r][i] = static_cast<float>(r * i);
  }
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outs;
  for (auto& rank : ranks) {
    inputs.push_back(reinterpret_cast<std::byte*>(rank.data()));
    outs.push_back(reinterpret_cast<std::byte*>(rank.data()));
  }
  detail::fold(at::kFloat, ReduceOp::kSum, inputs, outs, 1001);
  for (const auto& rank : ranks) {
    for (std::size_t i = 0; i < 1001; ++i) ASSERT_EQ(rank[i], static_cast<float>(6 * i));
  }
}

TEST(Fold, CopiesPastTheCachesFromAnyAddress) {
  std::vector<std::byte> source(1000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  for (const std::size_t begin : {0u, 1u, 63u, 64u}) {
    for (const std::int64_t bytes : {0, 1, 64, 100, 700}) {
      std::vector<std::byte> a(1000), b(1000);
      std::byte* const outs[2] = {a.data() + begin, b.data() + begin + 3};
      detail::copy_to_all(source.data() + 5, outs, bytes, detail::StoreMode::kStream);
      EXPECT_EQ(std::memcmp(outs[0], source.data() + 5, static_cast<std::size_t>(bytes)), 0);
      EXPECT_EQ(std::memcmp(outs[1], source.data() + 5, static_cast<std::size_t>(bytes)), 0);
      EXPECT_EQ(a[begin + static_cast<std::size_t>(bytes)], std::byte{0});
    }
  }
}

// Lengths around a tile against the plain loop.
TEST(Fold, DoesNotDependOnTiles) {
  const RandomStream random(7, "test.fold");
  for (const std::size_t n : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 2049u, 10'000u}) {
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
