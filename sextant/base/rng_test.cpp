#include "sextant/base/rng.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

using Counter = std::array<std::uint32_t, 4>;

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

struct InitRow {
  std::uint64_t i;
  std::uint64_t x;
  double u;
  double z;
  std::uint32_t z_bits;
  std::uint32_t scaled_bits;
};

TEST(RandomStreamTest, SixtyFourBitView) {
  const RandomStream stream(1234, "init:layers.0.attention.wq.weight");
  EXPECT_EQ(stream.stream(), 0x477cec86a1ef29a6U);
  const InitRow rows[] = {
      {0, 0x9c4381e58aa62df8, 0x1.388703cb154c5p-1, 0.2803749711931774, 0x3e8f8d4f, 0x3bb7bf1d},
      {1, 0x3823189cf48e6fd3, 0x1.c118c4e7a4734p-3, -0.774608472516802, 0xbf464cbe, 0xbc7dd2de},
      {2, 0x5ec7bb7feff676ee, 0x1.7b1eedffbfd9ep-2, -0.3312305448517792, 0xbea9970d, 0xbbd91344},
      {3, 0x931f3a809b6f2896, 0x1.263e750136de5p-1, 0.18834082905616112, 0x3e40dc6b, 0x3b76dcb2},
      {4095, 0x24ce3c08273a1a07, 0x1.2671e04139d0cp-3, -1.0635253455002596, 0xbf882199, 0xbcae3f7c},
      {(1ULL << 33) + 1, 0xd58364bbf34f6f64, 0x1.ab06c977e69edp-1, 0.9702383705157002, 0x3f78618b,
       0x3c9ef6bf}};
  for (const InitRow& row : rows) {
    EXPECT_EQ(stream.u64(row.i), row.x) << row.i;
    EXPECT_EQ(stream.uniform(row.i), row.u) << row.i;
    // Another libm's logarithm may differ in the last bit; none of these rows uses it but 4095.
    EXPECT_NEAR(stream.normal(row.i), row.z, 4e-16) << row.i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(stream.normal(row.i))), row.z_bits)
        << row.i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(0.02 * stream.normal(row.i))),
              row.scaled_bits)
        << row.i;
  }
}

TEST(RandomStreamTest, ThirtyTwoBitView) {
  const RandomStream step0(1234, "dropout:layers.0.attention.out", 0);
  const RandomStream step7(1234, "dropout:layers.0.attention.out", 7);
  EXPECT_EQ(step0.stream(), 0x784aa2e8bbcb1ff1U);
  EXPECT_EQ(step7.stream(), 0x8b165780222f1fa2U);
  struct Row {
    std::uint64_t i;
    std::uint32_t at_step0;
    std::uint32_t at_step7;
  };
  const Row rows[] = {{0, 0x3f1c46bf, 0x604b0cf4},
                      {1, 0xfd2ffeab, 0x81631f6e},
                      {2, 0x4bd15f2f, 0x51d8c051},
                      {3, 0xb3510099, 0x70fb0eb7},
                      {4, 0x9381575a, 0x3c7cbde8},
                      {4095, 0x38302a4e, 0xbc2eb7ca},
                      {(1ULL << 34) + 5, 0x47f68223, 0xf839152a}};
  for (const Row& row : rows) {
    EXPECT_EQ(step0.u32(row.i), row.at_step0) << row.i;
    EXPECT_EQ(step7.u32(row.i), row.at_step7) << row.i;
  }
  int num_dropped = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) num_dropped += step0.u32(i) < 0x19999999 ? 1 : 0;
  EXPECT_EQ(num_dropped, 2'017);
}

TEST(RandomStreamTest, MomentsOfTheNormal) {
  const RandomStream stream(1234, "init:layers.0.attention.wq.weight");
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const double z = stream.normal(i);
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / 20'000, 0.0052, 5e-5);
  EXPECT_NEAR(squares / 20'000, 1.0044, 5e-5);
}

TEST(RandomStreamTest, NameSaltAndSeedMatter) {
  const std::uint64_t x = RandomStream(1, "a").u64(0);
  EXPECT_NE(x, RandomStream(1, "b").u64(0));
  EXPECT_NE(x, RandomStream(1, "a", 1).u64(0));
  EXPECT_NE(x, RandomStream(2, "a").u64(0));
  EXPECT_NE(x, RandomStream(1ULL << 32, "a").u64(0));
  EXPECT_EQ(x, RandomStream(1, "a").u64(0));
}

// Reference: Python's statistics.NormalDist().inv_cdf, another implementation of the same
// algorithm.
TEST(NormalQuantileTest, KnownAnswers) {
  const std::pair<double, double> cases[] = {
      {1e-300, -37.0470962993612},    {1e-20, -9.262340089798405},
      {1e-10, -6.361340902404056},    {1e-05, -4.2648907939228256},
      {0.02425, -1.9729610513118845}, {0.07, -1.4757910281791702},
      {0.075, -1.4395314709384557},   {0.0751, -1.4388253927525398},
      {0.3, -0.5244005127080407},     {0.5, 0.0},
      {0.925, 1.439531470938456},     {0.97575, 1.9729610513118847},
      {0.999999, 4.753424308817089},  {0.25, -0.6744897501960817},
      {0.001, -3.090232306167813}};
  for (const auto& [p, z] : cases) EXPECT_NEAR(normal_quantile(p), z, std::abs(z) * 3e-16) << p;
}

TEST(NormalQuantileTest, InvertsTheDistributionFunction) {
  for (int k = 1; k < 2000; ++k) {
    const double p = k / 2000.0;
    const double z = normal_quantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-z / std::sqrt(2.0)), p, 4e-16) << p;
    EXPECT_EQ(normal_quantile(0.5 - k / 4096.0), -normal_quantile(0.5 + k / 4096.0));
  }
  EXPECT_THROW(normal_quantile(0), ContractError);
  EXPECT_THROW(normal_quantile(1), ContractError);
}

}  // namespace
}  // namespace sx
