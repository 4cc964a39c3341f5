#include "tests/property/generator.h"

#include <set>

namespace sx::property {
namespace {

TEST(GeneratorTest, EqualSeedsGiveEqualInputs) {
  Generator a(7);
  Generator b(7);
  Generator c(8);
  EXPECT_EQ(a.bytes(1000), b.bytes(1000));
  EXPECT_EQ(a.u64(), b.u64());
  EXPECT_NE(a.u64(), c.u64());
}

TEST(GeneratorTest, IntegersCoverTheRangeWithItsEnds) {
  Generator generator(1);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(generator.integer(-3, 3));
  EXPECT_EQ(seen, (std::set<std::int64_t>{-3, -2, -1, 0, 1, 2, 3}));
  for (int i = 0; i < 100; ++i) static_cast<void>(generator.integer(INT64_MIN, INT64_MAX));
}

TEST(GeneratorTest, SizesReachBothEnds) {
  Generator generator(1);
  std::set<std::size_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(generator.size(100));
  EXPECT_EQ(*seen.begin(), 0U);
  EXPECT_EQ(*seen.rbegin(), 100U);
  EXPECT_GT(seen.size(), 50U);
}

TEST(GeneratorTest, TextIsValidUtf8OfAllLengths) {
  Generator generator(3);
  std::set<int> lengths;
  for (int i = 0; i < 300; ++i) {
    const std::string text = generator.text(20);
    for (std::size_t at = 0; at < text.size();) {
      const auto lead = static_cast<unsigned char>(text[at]);
      const int length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
      ASSERT_TRUE(lead < 0x80 || lead >= 0xc2);
      ASSERT_LE(lead, 0xf4);
      ASSERT_LE(at + length, text.size());
      for (int k = 1; k < length; ++k)
        ASSERT_EQ(static_cast<unsigned char>(text[at + k]) & 0xc0, 0x80);
      lengths.insert(length);
      at += length;
    }
  }
  EXPECT_EQ(lengths.size(), 4U);
}

TEST(PropertyLoopTest, RunsAllCasesWithDistinctInputs) {
  std::set<std::uint64_t> seen;
  SX_PROPERTY(50, 100) { seen.insert(generator.u64()); }
  EXPECT_EQ(seen.size(), 50U);
}

TEST(PropertyLoopTest, FailureStopsTheLoopAndNamesTheSeed) {
  testing::internal::CaptureStderr();
  int num_run = 0;
  for (Cases cases(10, 40, [] { return true; }); cases.go_on(); cases.advance()) ++num_run;
  EXPECT_EQ(num_run, 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "SX_PROPERTY(1, 40) repeats the case that failed\n");
}

}  // namespace
}  // namespace sx::property
