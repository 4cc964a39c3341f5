#include "sextant/mesh/seq_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/rng.h"

namespace sx {
namespace {

using Ranges = std::vector<std::vector<SeqRange>>;
using Counts = std::vector<std::int64_t>;

Ranges zigzag(std::int64_t length, std::int64_t degree) {
  return partition_sequence(SeqPartitionKind::kZigzag, Counts{length}, degree);
}

Counts pairs_of(const Ranges& parts, const Counts& documents) {
  Counts pairs;
  for (const auto& ranges : parts) pairs.push_back(causal_pairs(ranges, documents));
  return pairs;
}

Counts totals_of(const Ranges& parts) {
  Counts totals;
  for (const auto& ranges : parts)
    totals.push_back(static_cast<std::int64_t>(token_indices(ranges).size()));
  return totals;
}

TEST(SeqPartition, ZigzagKnownRanges) {
  EXPECT_EQ(zigzag(16, 2), (Ranges{{{0, 4}, {12, 16}}, {{4, 8}, {8, 12}}}));
  EXPECT_EQ(pairs_of(zigzag(16, 2), {16}), (Counts{68, 68}));
  EXPECT_EQ(zigzag(10, 2), (Ranges{{{0, 2}, {7, 10}}, {{2, 5}, {5, 7}}}));
  EXPECT_EQ(pairs_of(zigzag(10, 2), {10}), (Counts{30, 25}));
  EXPECT_EQ(zigzag(7, 4),
            (Ranges{{{0, 0}, {6, 7}}, {{0, 1}, {5, 6}}, {{1, 2}, {4, 5}}, {{2, 3}, {3, 4}}}));
  EXPECT_EQ(zigzag(11, 3), (Ranges{{{0, 1}, {9, 11}}, {{1, 3}, {7, 9}}, {{3, 5}, {5, 7}}}));
  EXPECT_EQ(pairs_of(zigzag(11, 3), {11}), (Counts{22, 22, 22}));
  EXPECT_EQ(pairs_of(zigzag(8192, 4), {8192}), Counts(4, 8'389'632));
  EXPECT_EQ(pairs_of(zigzag(8191, 4), {8191}), Counts(4, 8'387'584));
  EXPECT_EQ(totals_of(zigzag(8191, 4)), (Counts{2047, 2048, 2048, 2048}));
}

/// Chunk sizes of a document, in chunk order.
Counts chunks_of(const Ranges& parts, std::size_t document) {
  Counts sizes;
  for (std::size_t r = 0; r < parts.size(); ++r) sizes.push_back(parts[r][2 * document].size());
  for (std::size_t r = parts.size(); r-- > 0;) sizes.push_back(parts[r][2 * document + 1].size());
  return sizes;
}

TEST(SeqPartition, DocumentsKnownSizes) {
  const Counts documents{7, 698, 1};
  const Ranges two = partition_sequence(SeqPartitionKind::kDocument, documents, 2);
  EXPECT_EQ(chunks_of(two, 0), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(chunks_of(two, 1), (Counts{175, 175, 174, 174}));
  EXPECT_EQ(chunks_of(two, 2), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(totals_of(two), (Counts{353, 353}));
  const Ranges four = partition_sequence(SeqPartitionKind::kDocument, documents, 4);
  EXPECT_EQ(chunks_of(four, 0), (Counts{1, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(chunks_of(four, 1), (Counts{88, 88, 87, 87, 87, 87, 87, 87}));
  EXPECT_EQ(chunks_of(four, 2), (Counts{1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(totals_of(four), (Counts{177, 177, 176, 176}));
}

TEST(SeqPartition, DocumentsOfOneTokenGoRound) {
  const Ranges parts = partition_sequence(SeqPartitionKind::kDocument, Counts(10, 1), 4);
  Counts owners(10, -1);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    for (const std::int64_t i : token_indices(parts[r]))
      owners[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(r);
  }
  EXPECT_EQ(owners, (Counts{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}));
}

TEST(SeqPartition, EveryTokenHasOneOwner) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStream random(seed, "seq_partition");
    Counts documents;
    const std::uint64_t count = 1 + random.u64(0) % 6;
    for (std::uint64_t i = 0; i < count; ++i)
      documents.push_back(static_cast<std::int64_t>(random.u64(1 + i) % 40));
    const std::int64_t length =
        std::accumulate(documents.begin(), documents.end(), std::int64_t{0});
    const auto degree = static_cast<std::int64_t>(1 + random.u64(20) % 6);
    for (const auto kind :
         {SeqPartitionKind::kZigzag, SeqPartitionKind::kDocument, SeqPartitionKind::kContiguous}) {
      const Ranges parts = partition_sequence(kind, documents, degree);
      Counts all;
      for (const auto& ranges : parts) {
        const Counts own = token_indices(ranges);
        EXPECT_TRUE(std::is_sorted(own.begin(), own.end()) || kind == SeqPartitionKind::kDocument);
        all.insert(all.end(), own.begin(), own.end());
      }
      std::sort(all.begin(), all.end());
      Counts expected(static_cast<std::size_t>(length));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
      const Counts totals = totals_of(parts);
      if (kind == SeqPartitionKind::kDocument) {
        EXPECT_LE(*std::max_element(totals.begin(), totals.end()),
                  *std::min_element(totals.begin(), totals.end()) + 1);
      }
      const Counts pairs = pairs_of(parts, documents);
      std::int64_t work = 0;
      for (const std::int64_t document : documents) work += document * (document + 1) / 2;
      EXPECT_EQ(std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0}), work);
    }
  }
}

TEST(SeqPartition, Names) {
  EXPECT_EQ(parse_seq_partition("document").value(), SeqPartitionKind::kDocument);
  EXPECT_EQ(parse_seq_partition("zig").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace sx
