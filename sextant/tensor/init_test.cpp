#include "sextant/tensor/init.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <bit>

#include "sextant/base/rng.h"

namespace sx {
namespace {

constexpr const char* kName = "layers.0.attention.wq.weight";

at::Tensor make(c10::ScalarType dtype, const InitSpec& spec, std::int64_t begin, std::int64_t count,
                int threads = 1, std::int64_t row = 64) {
  at::Tensor out = at::empty({count}, dtype);
  fill_init(out, spec, 1234, kName, row, begin, threads);
  return out;
}

TEST(Init, KnownAnswers) {
  struct Known {
    std::int64_t i;
    std::uint64_t x;
    double u, z;
    std::uint32_t bits_z, bits_scaled;
  };
  const Known known[] = {
      {0, 0x9c4381e58aa62df8, 0x1.388703cb154c5p-1, 0.2803749711931774, 0x3e8f8d4f, 0x3bb7bf1d},
      {1, 0x3823189cf48e6fd3, 0x1.c118c4e7a4734p-3, -0.774608472516802, 0xbf464cbe, 0xbc7dd2de},
      {2, 0x5ec7bb7feff676ee, 0x1.7b1eedffbfd9ep-2, -0.3312305448517792, 0xbea9970d, 0xbbd91344},
      {3, 0x931f3a809b6f2896, 0x1.263e750136de5p-1, 0.18834082905616112, 0x3e40dc6b, 0x3b76dcb2},
      {4095, 0x24ce3c08273a1a07, 0x1.2671e04139d0cp-3, -1.0635253455002596, 0xbf882199, 0xbcae3f7c},
      {(std::int64_t{1} << 33) + 1, 0xd58364bbf34f6f64, 0x1.ab06c977e69edp-1, 0.9702383705157002,
       0x3f78618b, 0x3c9ef6bf},
  };
  const RandomStream stream(1234, "init:layers.0.attention.wq.weight");
  for (const Known& k : known) {
    EXPECT_EQ(stream.u64(static_cast<std::uint64_t>(k.i)), k.x);
    EXPECT_EQ(stream.uniform(static_cast<std::uint64_t>(k.i)), k.u);
    const InitSpec unit{InitKind::kNormal, 0.0, 1.0};
    EXPECT_NEAR(make(c10::kDouble, unit, k.i, 1).item<double>(), k.z, 1e-15);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(make(c10::kFloat, unit, k.i, 1).item<float>()),
              k.bits_z);
    const InitSpec scaled{InitKind::kNormal, 0.0, 0.02};
    EXPECT_EQ(std::bit_cast<std::uint32_t>(make(c10::kFloat, scaled, k.i, 1).item<float>()),
              k.bits_scaled);
  }
}

TEST(Init, AnySliceAndAnyThreadCountGivesTheSameBits) {
  const InitSpec spec{InitKind::kNormal, 0.5, 0.02};
  constexpr std::int64_t kCount = 300'001;
  for (const c10::ScalarType dtype : {c10::kFloat, c10::kDouble}) {
    const at::Tensor whole = make(dtype, spec, 0, kCount);
    EXPECT_TRUE(at::equal(whole, make(dtype, spec, 0, kCount, 4)));
    for (const std::int64_t begin : {1, 77, 123'456}) {
      EXPECT_TRUE(at::equal(whole.narrow(0, begin, 999), make(dtype, spec, begin, 999)));
    }
  }
}

TEST(Init, MomentsOfTheFirstTwentyThousand) {
  const at::Tensor z = make(c10::kDouble, {InitKind::kNormal, 0.0, 1.0}, 0, 20'000);
  EXPECT_NEAR(z.mean().item<double>(), 0.0052, 5e-5);
  EXPECT_NEAR(z.mul(z).mean().item<double>(), 1.0044, 5e-5);
}

TEST(Init, PaddingRowsAreZeroAndDoNotShiftOthers) {
  const InitSpec padded{InitKind::kNormal, 0.0, 1.0, 3};
  const at::Tensor out = make(c10::kFloat, padded, 0, 40, 1, 8);
  EXPECT_TRUE(
      at::equal(out.narrow(0, 0, 24), make(c10::kFloat, {InitKind::kNormal, 0.0, 1.0}, 0, 24)));
  EXPECT_EQ(out.narrow(0, 24, 16).abs().max().item<float>(), 0.0f);
  EXPECT_EQ(make(c10::kFloat, {InitKind::kOnes}, 5, 4).sum().item<float>(), 4.0f);
  EXPECT_EQ(make(c10::kFloat, {InitKind::kZeros}, 5, 4).abs().sum().item<float>(), 0.0f);
}

}  // namespace
}  // namespace sx
