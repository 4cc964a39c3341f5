#include "sextant/cp/cp_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"

namespace sx {
namespace {

using enum SeqPartitionKind;
using Lengths = std::vector<std::int64_t>;

/// Pairs that a coordinate computes over the whole ring.
std::int64_t work_of(const CpPlan& plan, std::int64_t coord) {
  std::int64_t pairs = 0;
  for (const std::int64_t step : plan.ring_steps()) {
    pairs += count_pairs(plan.blocks(coord, (coord - step + plan.degree()) % plan.degree()),
                         plan.mask());
  }
  return pairs;
}

TEST(CpPlan, KnownWork) {
  struct Row {
    std::int64_t length, degree;
    Lengths pairs;
  };
  for (const Row& row : std::vector<Row>{{16, 2, {68, 68}},
                                         {10, 2, {30, 25}},
                                         {11, 3, {22, 22, 22}},
                                         {8192, 4, {8389632, 8389632, 8389632, 8389632}},
                                         {8191, 4, {8387584, 8387584, 8387584, 8387584}}}) {
    const CpPlan plan(kZigzag, Lengths{row.length}, row.degree);
    for (std::int64_t r = 0; r < row.degree; ++r) {
      EXPECT_EQ(work_of(plan, r), row.pairs[static_cast<std::size_t>(r)]);
      EXPECT_EQ(count_pairs(plan.row_blocks(r), plan.mask()), work_of(plan, r));
    }
  }
}

// Zig-zag with even chunks: the diagonal first, then half a block each step, without a mask.
TEST(CpPlan, ZigzagBlocksAreHalves) {
  const CpPlan plan(kZigzag, Lengths{64}, 4);
  using Kind = AttentionBlock::Kind;
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto blocks = plan.blocks(r, (r - i + 4) % 4);
      if (i == 0 && r == 3) {  // its two chunks are neighbours
        EXPECT_EQ(blocks, (std::vector<AttentionBlock>{{0, 16, 0, 16, Kind::kCausal, 0}}));
        continue;
      }
      if (i == 0) {
        ASSERT_EQ(blocks.size(), 3U);
        EXPECT_EQ(blocks[0].kind, Kind::kCausal);
        EXPECT_EQ(blocks[1].kind, Kind::kFull);
        EXPECT_EQ(blocks[2].kind, Kind::kCausal);
        continue;
      }
      std::int64_t pairs = 0;
      for (const AttentionBlock& block : blocks) {
        EXPECT_EQ(block.kind, Kind::kFull);
        if (i <= r) {
          EXPECT_LE(block.key + block.num_keys, 8);  // all queries, the earlier keys
        } else {
          EXPECT_GE(block.query, 8);  // the later queries, all keys
        }
        pairs += block.num_queries * block.num_keys;
      }
      EXPECT_EQ(pairs, 16 * 16 / 2);
    }
  }
}

// Equal where 2c divides the length; else chunks differ by a token, which from 64 tokens a chunk on
// is less than one part in fifty.
TEST(CpPlan, WorkIsBalanced) {
  for (std::int64_t c = 2; c <= 16; ++c) {
    for (const std::int64_t n : {64 * c, 128 * c + 1, 128 * c + 37}) {
      const CpPlan plan(kZigzag, Lengths{n}, c);
      std::int64_t most = 0, sum = 0;
      for (std::int64_t r = 0; r < c; ++r) {
        most = std::max(most, work_of(plan, r));
        sum += work_of(plan, r);
      }
      EXPECT_EQ(sum, n * (n + 1) / 2);
      EXPECT_LE(static_cast<double>(most * c),
                (n % (2 * c) == 0 ? 1.0 : 1.02) * static_cast<double>(sum))
          << c << " coordinates, " << n << " tokens";
    }
  }
}

TEST(CpPlan, PackedWorkIsBalanced) {
  const RandomStream stream(7, "test.cp.packing");
  for (std::int64_t c = 2; c <= 16; c *= 2) {
    Lengths documents;
    for (std::uint64_t i = 0; i < 24; ++i) {
      documents.push_back(1 + static_cast<std::int64_t>(stream.u64(i) % 400));
    }
    const CpPlan plan(kDocument, documents, c);
    std::int64_t most = 0, sum = 0;
    for (std::int64_t r = 0; r < c; ++r) {
      most = std::max(most, work_of(plan, r));
      sum += work_of(plan, r);
    }
    EXPECT_LE(static_cast<double>(most) * static_cast<double>(c), 1.05 * static_cast<double>(sum));
  }
}

TEST(CpPlan, WindowsSkipHops) {
  // Zig-zag neighbours are one coordinate up and one down: two hops of a ring of eight.
  EXPECT_EQ(CpPlan(kZigzag, Lengths{160}, 8, AttentionMask::window(8)).ring_steps(),
            (Lengths{0, 1, 7}));
  EXPECT_EQ(CpPlan(kContiguous, Lengths{160}, 8, AttentionMask::window(8)).ring_steps(),
            (Lengths{0, 1}));
  EXPECT_EQ(CpPlan(kContiguous, Lengths{160}, 8, AttentionMask::window(22)).ring_steps(),
            (Lengths{0, 1, 2}));
  // Ten documents of one token each: nobody needs anybody.
  EXPECT_EQ(CpPlan(kDocument, Lengths(10, 1), 4).ring_steps(), Lengths{0});
  EXPECT_EQ(CpPlan(kZigzag, Lengths{160}, 8).ring_steps(), (Lengths{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CpPlan, JoinedNeighboursAreAZigzagAgain) {
  const CpPlan plan(kZigzag, Lengths{96}, 6), joined = plan.joined(2);
  const CpPlan three(kZigzag, Lengths{96}, 3);
  for (std::int64_t o = 0; o < 3; ++o) EXPECT_EQ(joined.tokens(o), three.tokens(o));
  EXPECT_THROW(plan.joined(4), ContractError);
  EXPECT_THROW(AttentionMask::window(0), ContractError);
}

TEST(CpPlan, TokensTileAndPositionsAreThoseOfDocuments) {
  const Lengths documents = {7, 0, 698, 1};
  for (const std::int64_t c : {1, 2, 3, 4, 8}) {
    for (const SeqPartitionKind kind : {kZigzag, kDocument, kContiguous}) {
      const CpPlan plan(kind, documents, c);
      Lengths all;
      for (std::int64_t r = 0; r < c; ++r) {
        const Lengths positions = plan.positions(r);
        for (std::size_t i = 0; i < positions.size(); ++i) {
          const std::int64_t token = plan.tokens(r)[i];
          EXPECT_EQ(positions[i], token < 7 ? token : token < 705 ? token - 7 : 0);
        }
        all.insert(all.end(), plan.tokens(r).begin(), plan.tokens(r).end());
      }
      std::sort(all.begin(), all.end());
      Lengths expected(706);
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
    }
  }
}

/// Marks each pair of the blocks; how often it was marked.
std::vector<int> marks(const std::vector<AttentionBlock>& blocks, const AttentionMask& mask,
                       std::int64_t queries, std::int64_t keys) {
  std::vector<int> out(static_cast<std::size_t>(queries * keys), 0);
  for (const AttentionBlock& b : blocks) {
    for (std::int64_t i = 0; i < b.num_queries; ++i) {
      bool any = false;
      for (std::int64_t j = 0; j < b.num_keys; ++j) {
        const std::int64_t distance = j - i + b.shift;
        const bool seen = b.kind == AttentionBlock::Kind::kFull ||
                          (b.kind == AttentionBlock::Kind::kCausal && j <= i) ||
                          (b.kind == AttentionBlock::Kind::kBand && distance >= -mask.left &&
                           distance <= mask.right);
        if (!seen) continue;
        ++out[static_cast<std::size_t>((b.query + i) * keys + b.key + j)];
        any = true;
      }
      EXPECT_TRUE(any) << "a query without a key";
    }
  }
  return out;
}

TEST(VisibleBlocks, HoldEachVisiblePairOnce) {
  const RandomStream stream(11, "test.cp.blocks");
  std::uint64_t next = 0;
  const auto pick = [&](std::int64_t n) {
    return static_cast<std::int64_t>(stream.u64(next++) % static_cast<std::uint64_t>(n));
  };
  for (int trial = 0; trial < 60; ++trial) {
    Lengths documents;
    for (std::int64_t i = 0; i <= pick(4); ++i) documents.push_back(pick(trial < 50 ? 60 : 700));
    const AttentionMask mask = std::vector<AttentionMask>{
        AttentionMask::causal(),
        AttentionMask::full(),
        AttentionMask::window(1 + pick(40)),
        {pick(20), pick(20)},
        {AttentionMask::kUnlimited, pick(20)}}[static_cast<std::size_t>(pick(5))];
    const std::int64_t c = 1 + pick(5);
    const CpPlan plan(static_cast<SeqPartitionKind>(pick(3)), documents, c, mask);
    for (std::int64_t r = 0; r < c; ++r) {
      for (std::int64_t s = 0; s < c; ++s) {
        const auto blocks = plan.blocks(r, s);
        const auto found = marks(blocks, mask, plan.num_tokens(r), plan.num_tokens(s));
        std::size_t at = 0;
        std::int64_t pairs = 0;
        bool right = true;
        for (const SeqPiece& q : plan.pieces(r)) {
          for (std::int64_t i = 0; i < q.length; ++i) {
            for (const SeqPiece& k : plan.pieces(s)) {
              for (std::int64_t j = 0; j < k.length; ++j, ++at) {
                const std::int64_t distance = k.position + j - q.position - i;
                const bool seen =
                    q.document == k.document && distance >= -mask.left && distance <= mask.right;
                pairs += seen;
                right = right && found[at] == static_cast<int>(seen);
              }
            }
          }
        }
        EXPECT_TRUE(right) << "trial " << trial << ", coordinates " << r << " and " << s;
        EXPECT_EQ(count_pairs(blocks, mask), pairs);
        EXPECT_EQ(any_visible(plan.pieces(r), plan.pieces(s), mask), pairs > 0);
      }
    }
  }
}

}  // namespace
}  // namespace sx
