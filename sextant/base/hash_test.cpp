#include "sextant/base/hash.h"

#include <gtest/gtest.h>

#include "sextant/base/fs.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

TEST(HashTest, Xxh64KnownAnswers) {
  EXPECT_EQ(xxh64(""), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64("a"), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(xxh64("abc"), 0x44bc2cf5ad770999U);
  EXPECT_EQ(xxh64("init:layers.0.attention.wq.weight"), 0x477cec86a1ef29a6U);
}

TEST(HashTest, Xxh3KnownAnswers) {
  EXPECT_EQ(xxh3_64(""), 0x2d06800538d394c2U);
  EXPECT_EQ(xxh3_128("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hex64(xxh3_64("abc")), "78af5f94892f3950");
}

TEST(HashTest, Crc32cKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
}

TEST(HashTest, Crc32cEqualsTheBitwiseDefinition) {
  std::string bytes;
  for (int i = 0; i < 67; ++i) {
    std::uint32_t crc = ~0U;
    for (const char c : bytes) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
    EXPECT_EQ(crc32c(bytes), ~crc) << i;
    bytes += static_cast<char>(i * 37 + 11);
  }
}

TEST(HashTest, StreamAndFileEqualOneShot) {
  std::string bytes;
  for (std::uint64_t i = 0; i < 3'000'000; ++i) bytes += static_cast<char>(i * i >> 3);
  const TempDir dir;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1 << 20}, bytes.size()}) {
    const std::string_view part = std::string_view(bytes).substr(0, size);
    Xxh3Stream stream;
    for (std::size_t at = 0; at < size; at += 70'001) stream.update(part.substr(at, 70'001));
    EXPECT_EQ(stream.digest(), xxh3_64(part));
    ASSERT_TRUE(write_file_atomic(dir / "f", part).ok());
    EXPECT_EQ(*xxh3_64_file(dir / "f"), xxh3_64(part));
  }
  EXPECT_EQ(xxh3_64_file(dir / "none").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(xxh3_64_file(dir.path().string()).error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace sx
