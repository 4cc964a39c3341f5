#include "sextant/data/fim.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sx {
namespace {

/// One id per byte; 300 .. 302 are prefix, middle, suffix, 256 ends a document.
Fim byte_fim(double rate, double spm_rate) {
  Fim::Options options{.rate = rate, .spm_rate = spm_rate, .seed = 3};
  options.prefix_id = 300;
  options.middle_id = 301;
  options.suffix_id = 302;
  options.eod_id = 256;
  options.encode = [](std::string_view text) {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  };
  options.decode = [](std::span<const std::int32_t> ids) {
    return std::string(ids.begin(), ids.end());
  };
  return Fim(std::move(options));
}

std::vector<std::int32_t> documents(const std::vector<std::string>& texts) {
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    ids.push_back(256);
  }
  return ids;
}

std::string text_of(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(Fim, PartsComeBackFromPrefixMiddleAndSuffix) {
  for (const double spm : {0.0, 1.0}) {
    const Fim fim = byte_fim(1, spm);
    for (std::uint64_t unit = 0; unit < 50; ++unit) {
      std::vector<std::int32_t> sample = documents({"the quick brown fox", "jumps \xc3\xa9 over"});
      const std::vector<std::int32_t> before = sample;
      sample.resize(sample.size() + 6, 256);  // room for three marks in each of two parts
      fim.apply("p", 0, unit, sample);
      const auto find = [&](std::int32_t id) {
        return std::find(sample.begin(), sample.end(), id);
      };
      const auto end = find(256), middle = find(301), suffix = find(302);
      ASSERT_EQ(sample.front(), 300);
      ASSERT_TRUE(suffix < middle && middle < end);
      const auto part = [](auto from, auto to) { return text_of({from, to}); };
      const std::string back = spm == 0 ? part(sample.begin() + 1, suffix) + part(middle + 1, end) +
                                              part(suffix + 1, middle)
                                        : part(middle + 1, end) + part(suffix + 1, middle);
      EXPECT_EQ(back, "the quick brown fox") << unit;
      EXPECT_EQ(std::count(sample.begin(), sample.end(), 300), 2);
    }
  }
}

TEST(Fim, IsAFunctionOfPlaceAloneAndKeepsTheLength) {
  const Fim fim = byte_fim(0.5, 0.5);
  int changed = 0;
  for (std::uint64_t unit = 0; unit < 400; ++unit) {
    std::vector<std::int32_t> one = documents({"abcdefgh", "ij"}), two = one, other = one;
    const std::vector<std::int32_t> before = one;
    fim.apply("p", 1, unit, one);
    fim.apply("q", 1, unit, other);
    fim.apply("p", 1, unit, two);
    EXPECT_EQ(one, two);
    EXPECT_EQ(one.size(), before.size());
    changed += std::find(one.begin(), one.begin() + 9, 300) != one.begin() + 9 ? 1 : 0;
  }
  EXPECT_NEAR(changed, 200, 50);  // five standard deviations
  std::vector<std::int32_t> same = documents({"abc"});
  byte_fim(0, 0.5).apply("p", 0, 0, same);
  EXPECT_EQ(same, documents({"abc"}));
}

TEST(Fim, VocabulariesWithoutItsTokensAreRefused) {
  EXPECT_EQ(Fim::make(Tokenizer::bytes(), {.rate = 1}).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace sx
