#include <gtest/gtest.h>

#include <fstream>

#include "sextant/base/rng.h"
#include "sextant/crawl/exact_dedup.h"
#include "sextant/crawl/minhash_dedup.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::vector<fs::path> write_files(const fs::path& folder, const std::vector<std::string>& texts) {
  std::vector<fs::path> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    out.push_back(folder / ("doc" + std::to_string(i + 1) + ".txt"));
    std::ofstream(out.back(), std::ios::binary) << texts[i];
  }
  return out;
}

TEST(LineDedup, EveryCopyGoesAndEmptyFilesAreWritten) {
  TempDir dir;
  const auto inputs = write_files(
      dir.path(), {"A line that two documents share.\n", "A line that two documents share.\n",
                   "- home\n- menu\n- back\nThe content of the third one.\n",
                   "- home\n- menu\nThe content of the fourth one.\n", "Alone, without line end"});
  const auto report = dedup_lines(inputs, dir / "out");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->pieces, 10u);
  EXPECT_EQ(report->dropped, 6u);
  EXPECT_EQ(report->files_written, 5u);
  const std::vector<std::string> want = {"", "", "- back\nThe content of the third one.\n",
                                         "The content of the fourth one.\n",
                                         "Alone, without line end"};
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(read_file(dir / "out" / inputs[i].filename()).value(), want[i]) << i;
}

TEST(LineDedup, NothingIsLostWithoutCopies) {
  TempDir dir;
  const auto inputs = write_files(dir.path(), {"a\nb\r\nc", "d\n\ne\n"});
  EXPECT_EQ(dedup_lines(inputs, dir / "out").value().dropped, 0u);
  EXPECT_EQ(read_file(dir / "out/doc1.txt").value(), "a\nb\r\nc");
  EXPECT_FALSE(dedup_lines({inputs[0], inputs[0]}, dir / "out").ok());
}

TEST(ParagraphDedup, FirstCopyStays) {
  TempDir dir;
  const auto inputs = write_files(dir.path(), {"one\nline\n\ntwo\n\n\nthree", "two\n\nfour\n"});
  EXPECT_EQ(dedup_paragraphs(inputs, dir / "out").value().dropped, 1u);
  EXPECT_EQ(read_file(dir / "out/doc1.txt").value(), "one\nline\n\ntwo\n\n\nthree");
  EXPECT_EQ(read_file(dir / "out/doc2.txt").value(), "four\n");
}

TEST(FileDedup, EqualFilesAreWrittenOnce) {
  TempDir dir;
  const auto inputs = write_files(dir.path(), {"x", "y", "x"});
  EXPECT_EQ(dedup_files(inputs, dir / "out").value().dropped, 1u);
  EXPECT_FALSE(fs::exists(dir / "out/doc3.txt"));
}

TEST(Shingles, NormalizedText) {
  EXPECT_EQ(normalize_for_shingles("  Crème,\tBRÛLÉE -- isn't $5!\n"), "creme brulee isnt 5");
  EXPECT_EQ(word_shingles("a b c", 5).size(), 1u);
  EXPECT_EQ(word_shingles("a b c d e f", 5).size(), 2u);
  EXPECT_EQ(word_shingles("a a a a a a", 5).size(), 1u);
  EXPECT_EQ(word_shingles("", 5).size(), 0u);
  EXPECT_DOUBLE_EQ(jaccard({1, 2, 3}, {2, 3, 4}), 0.5);
}

TEST(MinHash, ProbabilityOfACandidate) {
  const MinHasher hasher(14, 8, 0);
  EXPECT_NEAR(hasher.candidate_probability(0.5), 0.0533, 1e-4);
  EXPECT_NEAR(hasher.candidate_probability(0.7), 0.5645, 1e-4);
  EXPECT_NEAR(hasher.candidate_probability(0.8), 0.9235, 1e-4);
  EXPECT_NEAR(hasher.candidate_probability(0.9), 0.9996, 1e-4);
}

/// Two sets of `size` numbers with `common` in both.
std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>> overlapping(
    std::size_t size, std::size_t common, const RandomStream& numbers, std::uint64_t& next) {
  std::vector<std::uint64_t> a;
  std::vector<std::uint64_t> b;
  for (std::size_t i = 0; i < common; ++i) a.push_back(numbers.u64(next++));
  b = a;
  for (std::size_t i = common; i < size; ++i) {
    a.push_back(numbers.u64(next++));
    b.push_back(numbers.u64(next++));
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return {a, b};
}

// Agreement of two signatures estimates the similarity, and the share of pairs that meet in a band
// is what the formula says: both within four standard deviations.
TEST(MinHash, EstimatesSimilarityAndRecall) {
  const RandomStream numbers(7, "test.minhash");
  std::uint64_t next = 0;
  const MinHasher hasher(14, 8, 3);
  for (const std::size_t common : {60, 75, 89}) {
    constexpr std::size_t kPairs = 400;
    double agree = 0;
    double met = 0;
    double similarity = 0;
    for (std::size_t p = 0; p < kPairs; ++p) {
      const auto [a, b] = overlapping(100, common, numbers, next);
      similarity = jaccard(a, b);
      const auto sa = hasher.signature(a);
      const auto sb = hasher.signature(b);
      for (std::size_t i = 0; i < sa.size(); ++i) agree += sa[i] == sb[i] ? 1 : 0;
      const auto ka = hasher.band_keys(a);
      const auto kb = hasher.band_keys(b);
      bool meets = false;
      for (std::size_t i = 0; i < ka.size(); ++i) meets = meets || ka[i] == kb[i];
      met += meets ? 1 : 0;
    }
    const double n = kPairs * 112.0;
    EXPECT_NEAR(agree / n, similarity, 4 * std::sqrt(similarity * (1 - similarity) / n));
    const double p = hasher.candidate_probability(similarity);
    EXPECT_NEAR(met / kPairs, p, 4 * std::sqrt(p * (1 - p) / kPairs) + 1e-9);
  }
}

std::string words(const RandomStream& numbers, std::size_t from, std::size_t count) {
  std::string out;
  for (std::size_t i = from; i < from + count; ++i)
    out += "w" + std::to_string(numbers.u64(i) % 5000) + " ";
  return out;
}

std::vector<bool> search(const std::vector<std::string>& texts, NearDuplicateOptions options = {}) {
  NearDuplicates search(options);
  for (std::size_t i = 0; i < texts.size(); ++i) search.add(search.sketch(texts[i]), i);
  return search.finish();
}

TEST(NearDuplicates, PairsAboveTheThresholdBecomeOne) {
  const RandomStream numbers(11, "test.words");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 50; ++i) {
    const std::string base = words(numbers, i * 1000, 200);
    texts.push_back(base);
    texts.push_back(base + words(numbers, i * 1000 + 500, 4));    // similarity about 0.98
    texts.push_back(base + words(numbers, i * 1000 + 600, 150));  // about 0.57
  }
  const std::vector<bool> keep = search(texts);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(keep[3 * i]);
    EXPECT_FALSE(keep[3 * i + 1]);
    EXPECT_TRUE(keep[3 * i + 2]);
  }
}

TEST(NearDuplicates, KeepRules) {
  const RandomStream numbers(11, "test.words");
  const std::string base = words(numbers, 0, 200);
  const std::vector<std::string> texts = {base, base + "more words", base + "more words and more"};
  NearDuplicateOptions options;
  EXPECT_EQ(search(texts, options), (std::vector<bool>{true, false, false}));
  options.keep = KeepRule::kLongest;
  EXPECT_EQ(search(texts, options), (std::vector<bool>{false, false, true}));
  options.keep = KeepRule::kRandom;
  const auto random = search(texts, options);
  EXPECT_EQ(std::count(random.begin(), random.end(), true), 1);
  EXPECT_EQ(search(texts, options), random);
}

TEST(NearDuplicates, ShortTextsAndManyEqualOnes) {
  EXPECT_EQ(search({"one two", "ONE, two!", "one three", "", ""}),
            (std::vector<bool>{true, false, true, true, true}));
  const std::vector<std::string> equal(20000, "the same few words in each of them, always");
  NearDuplicates many({});
  const DocumentSketch sketch = many.sketch(equal[0]);
  for (std::size_t i = 0; i < equal.size(); ++i) many.add(sketch, i);
  const std::vector<bool> keep = many.finish();
  EXPECT_EQ(std::count(keep.begin(), keep.end(), true), 1);
  EXPECT_LT(many.report().candidates, equal.size());
}

TEST(NearDuplicates, AgreesWithAllPairs) {
  const RandomStream numbers(5, "test.mixed");
  std::vector<std::string> texts;
  std::vector<std::vector<std::uint64_t>> sets;
  for (std::size_t i = 0; i < 300; ++i) {
    std::string text = words(numbers, (i / 3) * 400, 120);
    if (i % 3 > 0) text += words(numbers, 500000 + i * 50, (numbers.u64(900000 + i) % 40));
    texts.push_back(text);
    sets.push_back(word_shingles(normalize_for_shingles(text), 5));
  }
  NearDuplicateOptions options;
  options.bands = 40;
  options.rows = 4;  // a pair at 0.8 is missed once in 10^9
  const std::vector<bool> keep = search(texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bool has_earlier = false;
    for (std::size_t k = 0; k < i; ++k)
      has_earlier = has_earlier || jaccard(sets[k], sets[i]) >= 0.8;
    if (has_earlier) {
      EXPECT_FALSE(keep[i]) << i;
    }
  }
}

}  // namespace
}  // namespace sx
