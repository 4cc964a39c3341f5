#include "sextant/token/char_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace sx {
namespace {

std::string utf8(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return std::string(1, static_cast<char>(value)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xC0 | c >> 6) + byte(0x80 | (c & 63));
  if (c < 0x10000) return byte(0xE0 | c >> 12) + byte(0x80 | (c >> 6 & 63)) + byte(0x80 | (c & 63));
  return byte(0xF0 | c >> 18) + byte(0x80 | (c >> 12 & 63)) + byte(0x80 | (c >> 6 & 63)) +
         byte(0x80 | (c & 63));
}

TEST(CharScan, EveryCodePoint) {
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string bytes = utf8(c);
    const ScannedChar scanned = scan_char(bytes, 0);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_FALSE(scanned.valid) << c;
    } else {
      ASSERT_TRUE(scanned.valid && scanned.code_point == c && scanned.size == bytes.size()) << c;
    }
  }
}

TEST(CharScan, IllFormed) {
  for (const std::string bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x91",
        "\xC3z"}) {
    const ScannedChar c = scan_char(bytes, 0);
    EXPECT_FALSE(c.valid) << testing::PrintToString(bytes);
    EXPECT_EQ(c.size, 1);
  }
  EXPECT_EQ(scan_char("", 0).size, 0);
}

TEST(CharScan, MaximalIllFormedParts) {
  EXPECT_EQ(ill_formed_size("\xF0\x9F\x91", 0), 3u);
  EXPECT_EQ(ill_formed_size("\xF0\x9F\x91z", 0), 3u);
  EXPECT_EQ(ill_formed_size("\xE2\x82z", 0), 2u);
  EXPECT_EQ(ill_formed_size("\xE0\x80\x80", 0), 1u);
  EXPECT_EQ(ill_formed_size("\xED\xA0\x80", 0), 1u);
  EXPECT_EQ(ill_formed_size("\xF4\x90\x80\x80", 0), 1u);
  EXPECT_EQ(ill_formed_size("\xC3", 0), 1u);
  EXPECT_EQ(ill_formed_size("\x80", 0), 1u);
}

}  // namespace
}  // namespace sx
