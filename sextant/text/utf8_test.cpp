#include "sextant/text/utf8.h"

#include <gtest/gtest.h>

#include "sextant/base/rng.h"
#include "sextant/text/encoding.h"

namespace sx {
namespace {

constexpr const char* kR = "\xEF\xBF\xBD";

TEST(Utf8, ReplacesMaximalInvalidParts) {
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "abc"},
      {"\xC3\xA9", "\xC3\xA9"},
      {"\x80", kR},
      {"\xC0\xAF", std::string(kR) + kR},                    // overlong
      {"\xE0\x80\xAF", std::string(kR) + kR + kR},           // overlong
      {"\xED\xA0\x80", std::string(kR) + kR + kR},           // surrogate
      {"\xF4\x90\x80\x80", std::string(kR) + kR + kR + kR},  // above U+10FFFF
      {"\xE2\x82", kR},                                      // cut
      {"\xE2\x82x", std::string(kR) + "x"},
      {"\xF0\x9F\x98", kR},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
      // Unicode 15.0, table 3-8: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64
      {"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
       std::string("a") + kR + kR + kR + "b" + kR + "c" + kR + kR + "d"}};
  for (const auto& [in, want] : cases) {
    std::uint64_t replaced = 0;
    EXPECT_EQ(repair_utf8(in, replaced), want);
    EXPECT_EQ(is_valid_utf8(in), replaced == 0);
    EXPECT_EQ(census_utf8(in).replacements, replaced);
  }
}

TEST(Utf8, RepairedBytesAreValidWhateverTheyWere) {
  const RandomStream random(11, "utf8.repair");
  for (std::uint64_t turn = 0; turn < 300; ++turn) {
    std::string bytes;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint64_t draw = random.u64(turn * 40 + i);
      if (draw % 3 == 0)
        append_utf8(bytes, static_cast<char32_t>(draw >> 8 & 0x1FFFFF));
      else
        bytes += static_cast<char>(draw >> 16);
    }
    std::uint64_t replaced = 0;
    const std::string once = repair_utf8(bytes, replaced);
    ASSERT_TRUE(is_valid_utf8(once)) << "seed 11 turn " << turn;
    std::uint64_t again = 0;
    ASSERT_EQ(repair_utf8(once, again), once);
    ASSERT_EQ(again, 0u);
  }
}

TEST(Encoding, Labels) {
  EXPECT_EQ(encoding_for_label("utf8"), "UTF-8");
  EXPECT_EQ(encoding_for_label(" UTF-8\n"), "UTF-8");
  for (const char* label :
       {"latin1", "ISO-8859-1", "ascii", "us-ascii", "cp1252", "windows-1252", "l1"}) {
    EXPECT_EQ(encoding_for_label(label), "windows-1252") << label;
  }
  EXPECT_EQ(encoding_for_label("gb2312"), "GBK");
  EXPECT_EQ(encoding_for_label("sjis"), "Shift_JIS");
  EXPECT_EQ(encoding_for_label("x-user-defined"), "x-user-defined");
  EXPECT_EQ(encoding_for_label("utf-7"), std::nullopt);
  EXPECT_EQ(encoding_for_label("nonsense"), std::nullopt);
  EXPECT_EQ(encoding_for_label(""), std::nullopt);
}

TEST(Encoding, CharsetParameter) {
  EXPECT_EQ(charset_parameter("text/html; charset=utf-8"), "utf-8");
  EXPECT_EQ(charset_parameter("text/html;Charset = \"Latin1\" ; x=y"), "Latin1");
  EXPECT_EQ(charset_parameter("text/html; charset='a"), std::nullopt);
  EXPECT_EQ(charset_parameter("text/html; charset"), std::nullopt);
  EXPECT_EQ(charset_parameter("charsetcharset=x;y"), "x");
  EXPECT_EQ(charset_parameter("text/html"), std::nullopt);
}

TEST(Encoding, PrescanReadsMetaOnly) {
  EXPECT_EQ(prescan_meta("<meta charset=utf-8>"), "UTF-8");
  EXPECT_EQ(prescan_meta("<!-- <meta charset=sjis> --><META\nCHARSET='koi8-r' >"), "KOI8-R");
  EXPECT_EQ(prescan_meta("<meta http-equiv=Content-Type content='text/html; charset=euc-jp'>"),
            "EUC-JP");
  EXPECT_EQ(prescan_meta("<meta content='text/html; charset=euc-jp'>"), std::nullopt);
  EXPECT_EQ(prescan_meta("<meta charset=utf-16le>"), "UTF-8");
  EXPECT_EQ(prescan_meta("<meta charset=x-user-defined>"), "windows-1252");
  EXPECT_EQ(prescan_meta("<title a='<meta charset=sjis>'></title>"), std::nullopt);
  EXPECT_EQ(prescan_meta(std::string(1100, ' ') + "<meta charset=utf-8>"), std::nullopt);
  EXPECT_EQ(prescan_meta(std::string(1100, ' ') + "<meta charset=utf-8>", 65536), "UTF-8");
  EXPECT_EQ(prescan_meta("<?xml version='1.0' encoding='shift_jis'?><html>"), "Shift_JIS");
}

}  // namespace
}  // namespace sx
