#include "sextant/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sx {
namespace {

TEST(UnitsTest, ParsesBytes) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"0B", 0},
      {"512B", 512},
      {"4MiB", 4 << 20},
      {"64 KiB", 64 << 10},
      {"1GB", 1'000'000'000},
      {"1.5GiB", 3LL << 29},
      {"2TiB", 2LL << 40},
      {"3KB", 3000},
      {"7MB", 7'000'000},
      {"1TB", 1'000'000'000'000},
      {"1_024KiB", 1 << 20},
      {"9223372036854775807B", std::numeric_limits<std::int64_t>::max()}};
  for (const auto& [text, bytes] : cases) {
    ASSERT_TRUE(parse_bytes(text).ok()) << text;
    EXPECT_EQ(parse_bytes(text)->value, bytes) << text;
  }
  for (const char* text : {"", "4", "MiB", "4mib", "4 M", "-1B", "1e3B", "4MiB ", "0.5B", "1..5KB",
                           ".", "_1B", "1_B", "9223372036854775808B", "99999999TiB", "4MiBs"}) {
    ASSERT_FALSE(parse_bytes(text).ok()) << text;
    EXPECT_EQ(parse_bytes(text).error().kind, ErrorKind::kInvalid) << text;
  }
  EXPECT_EQ(parse_bytes("4").error().message,
            "\"4\" is not a size: a number and one of B KiB MiB GiB TiB KB MB GB TB");
}

TEST(UnitsTest, ParsesDurations) {
  const std::pair<const char*, double> cases[] = {{"90s", 90},    {"10min", 600},  {"250ms", 0.25},
                                                  {"1.5h", 5400}, {"2d", 172'800}, {"30us", 3e-5},
                                                  {"0s", 0},      {"5 min", 300}};
  for (const auto& [text, seconds] : cases) {
    ASSERT_TRUE(parse_duration(text).ok()) << text;
    EXPECT_DOUBLE_EQ(parse_duration(text)->value, seconds) << text;
  }
  for (const char* text : {"", "10", "10m", "-1s", "s", "1 hour"})
    EXPECT_FALSE(parse_duration(text).ok()) << text;
}

TEST(UnitsTest, ParsesCounts) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"7", 7},
      {"12k", 12'000},
      {"1_000_000", 1'000'000},
      {"300B", 300'000'000'000},
      {"1.5M", 1'500'000},
      {"1.1k", 1'100},
      {"2T", 2'000'000'000'000},
      {"2.0", 2},
      {"9007199254740993", 9'007'199'254'740'993}};
  for (const auto& [text, count] : cases) {
    ASSERT_TRUE(parse_count(text).ok()) << text;
    EXPECT_EQ(*parse_count(text), count) << text;
  }
  for (const char* text :
       {"", "k", "1.5", "-3", "1e6", "12K", "1.0005k", "1__", "9223372036854775808"}) {
    EXPECT_FALSE(parse_count(text).ok()) << text;
  }
}

TEST(UnitsTest, FormatsBytes) {
  const std::pair<std::int64_t, const char*> cases[] = {{0, "0 B"},
                                                        {512, "512 B"},
                                                        {1023, "1023 B"},
                                                        {1024, "1.00 KiB"},
                                                        {1 << 20, "1.00 MiB"},
                                                        {64LL << 20, "64.0 MiB"},
                                                        {65'927'633'306, "61.4 GiB"},
                                                        {(1LL << 30) - 1, "1.00 GiB"},
                                                        {5LL << 50, "5120 TiB"},
                                                        {-2048, "-2.00 KiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(format_bytes(Bytes(bytes)), text);
}

TEST(UnitsTest, FormatsDurations) {
  const std::pair<double, const char*> cases[] = {
      {0, "0 s"},        {30e-6, "30 us"},  {0.0045, "4.5 ms"}, {0.512, "512 ms"},
      {0.9999, "1.0 s"}, {3.2, "3.2 s"},    {59.97, "1m00s"},   {75, "1m15s"},
      {3599.7, "1h00m"}, {11'520, "3h12m"}, {86'400, "1d00h"},  {-2, "-2.0 s"}};
  for (const auto& [seconds, text] : cases)
    EXPECT_EQ(format_duration(Seconds(seconds)), text) << seconds;
  EXPECT_EQ(format_duration(Seconds(std::numeric_limits<double>::infinity())), "inf");
}

TEST(UnitsTest, FormatsCounts) {
  const std::pair<double, const char*> cases[] = {
      {0, "0"},         {7, "7"},          {0.91, "0.91"},     {512, "512"},
      {999.6, "1.00k"}, {12'345, "12.3k"}, {123'456, "123k"},  {999'999, "1.00M"},
      {1.5e9, "1.50G"}, {2e12, "2.00T"},   {-12'345, "-12.3k"}};
  for (const auto& [count, text] : cases) EXPECT_EQ(format_count(count), text) << count;
  EXPECT_EQ(format_count(std::nan("")), "nan");
}

TEST(UnitsTest, QuantitiesCompareAndAdd) {
  EXPECT_EQ((Bytes(2) + Bytes(3)).value, 5);
  EXPECT_LT(Seconds(1), Seconds(2));
}

}  // namespace
}  // namespace sx
