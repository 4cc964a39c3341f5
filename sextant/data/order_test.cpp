#include "sextant/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sextant/base/hash.h"
#include "sextant/data/permutation.h"
#include "tests/support/sha256.h"

namespace sx {
namespace {

std::vector<std::int64_t> head(const Permutation& permutation, std::uint64_t count) {
  std::vector<std::int64_t> units;
  for (std::uint64_t i = 0; i < count; ++i)
    units.push_back(static_cast<std::int64_t>(permutation(i)));
  return units;
}

// The published known answers of the native order.
TEST(Permutation, KnownAnswers) {
  const std::uint64_t tera = 1000000000000;
  const struct {
    std::uint64_t seed;
    const char* name;
    std::uint64_t epoch, n;
    std::vector<std::int64_t> first;
    const char* sha;
    std::uint64_t last;
  } rows[] = {
      {1234, "data.order:gd/f0", 0, 1000, {507, 783, 28, 137, 887, 296}, "8a1ee65cb6385d8e", 640},
      {1234, "data.order:gd/f0", 1, 1000, {115, 121, 181, 795, 16, 80}, "d0f39618bb8a349f", 424},
      {42, "data.order:gd/f0", 0, 1000, {898, 707, 111, 134, 540, 971}, "14888389928cb211", 37},
      {1234, "data.order:gd/f1", 0, 1000, {858, 339, 405, 560, 622, 84}, "4f7b8cc49d202437", 126},
      {1234, "data.order:gd/f0", 0, 7, {6, 5, 2, 4, 3, 0}, "50abd36457f24a5e", 1},
      {1234,
       "data.order:gd/f0",
       3,
       tera,
       {858937997526, 643676571282, 668115133339, 221242314865, 314835489752, 947374852845},
       "66ab2bf6e18c7d51",
       386090752660},
  };
  for (const auto& row : rows) {
    const Permutation permutation(RandomStream(row.seed, row.name), row.epoch, row.n);
    EXPECT_EQ(head(permutation, 6), row.first);
    EXPECT_EQ(sha256_16(head(permutation, std::min<std::uint64_t>(row.n, 1000))), row.sha);
    EXPECT_EQ(permutation(row.n - 1), row.last);
    EXPECT_EQ(permutation.inverse(row.last), row.n - 1);
  }
  const Permutation odd(RandomStream(1234, "data.order:gd/f0"), 0, 257);
  EXPECT_EQ(odd(0), 138u);
  EXPECT_EQ(odd(1), 189u);
  EXPECT_EQ(odd(128), 37u);
  EXPECT_EQ(odd(255), 117u);
  EXPECT_EQ(odd(256), 106u);
}

TEST(Permutation, KeysAreThoseOfTheStream) {
  EXPECT_EQ(hex64(xxh64("data.order:gd/f0")), "c9f41af79bddaee0");
  const RandomStream stream(1234, "data.order:gd/f0");
  const char* keys[] = {"98f31bf173cb161d", "fca3a5683c6a5351", "c494de2949cb7440",
                        "1dbee4f75d7d4692", "cb5371f69684ee0c", "217f86593099b9a3"};
  for (std::uint64_t r = 0; r < 6; ++r) EXPECT_EQ(hex64(stream.u64(r)), keys[r]);
}

TEST(Permutation, IsABijectionWithAnInverse) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream stream(seed, "test.permutation");
  for (std::uint64_t n = 1; n <= 5000; n += n < 300 ? 1 : 47) {
    const Permutation permutation(stream, n % 5, n);
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t unit = permutation(i);
      ASSERT_LT(unit, n);
      ASSERT_FALSE(seen[unit]) << "n " << n;
      seen[unit] = true;
      ASSERT_EQ(permutation.inverse(unit), i);
    }
  }
}

TEST(Permutation, LargeRangesInvertAndDoNotCollide) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream stream(seed, "test.permutation");
  for (std::uint64_t draw = 0; draw < 1000; ++draw) {
    const std::uint64_t n = 1 + stream.u64(4000 + draw) % (std::uint64_t{1} << 40);
    const Permutation permutation(stream, draw, n);
    std::set<std::uint64_t> positions, units;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::uint64_t position = stream.u64(100000 + 20 * draw + i) % n;
      const std::uint64_t unit = permutation(position);
      ASSERT_LT(unit, n);
      ASSERT_EQ(permutation.inverse(unit), position);
      positions.insert(position);
      units.insert(unit);
    }
    EXPECT_EQ(positions.size(), units.size());
  }
}

// All n! orders of small n come about equally often over seeds: chi-square within five sigmas.
TEST(Permutation, SmallOrdersAreUniformOverSeeds) {
  for (const std::uint64_t n : {3u, 4u, 5u}) {
    std::map<std::vector<std::int64_t>, int> counts;
    const int seeds = 20000;
    for (int seed = 0; seed < seeds; ++seed) {
      ++counts[head(Permutation(RandomStream(static_cast<std::uint64_t>(seed), "test.small"), 0, n),
                    n)];
    }
    const double orders = n == 3 ? 6 : n == 4 ? 24 : 120;
    ASSERT_EQ(counts.size(), static_cast<std::size_t>(orders));
    double chi = 0;
    for (const auto& [order, count] : counts) {
      const double off = count - seeds / orders;
      chi += off * off / (seeds / orders);
    }
    EXPECT_LT(std::abs(chi - (orders - 1)) / std::sqrt(2 * (orders - 1)), 5.0) << n;
  }
}

struct BlendArrays {
  std::vector<std::int16_t> members;
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> counts;
};

BlendArrays arrays(const NativeBlend& blend, std::uint64_t size) {
  BlendArrays out;
  out.counts.resize(blend.num_members());
  for (std::uint64_t t = 0; t < size; ++t) {
    const BlendItem item = blend.at(t);
    out.members.push_back(static_cast<std::int16_t>(item.member));
    out.samples.push_back(static_cast<std::int64_t>(item.k));
    ++out.counts[item.member];
  }
  return out;
}

TEST(NativeBlend, KnownAnswers) {
  const struct {
    std::vector<std::uint64_t> weights;
    std::vector<std::int16_t> first;
    const char *members, *samples;
    std::vector<std::int64_t> counts;
  } rows[] = {
      {{5, 3, 2},
       {0, 1, 2, 0, 0, 1, 0, 2, 1, 0, 0, 1},
       "d5f301dcf72f25e2",
       "8b5c84dcfaca29fb",
       {50000, 30000, 20000}},
      {{1, 1, 1},
       {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2},
       "1b00ed8005354918",
       "5ad831cdaa889f6a",
       {33334, 33333, 33333}},
      {std::vector<std::uint64_t>(10, 1),
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1},
       "e76beb4eb155f51c",
       "f0da1659fa639ce2",
       std::vector<std::int64_t>(10, 10000)},
      {{1, 999},
       std::vector<std::int16_t>(12, 1),
       "2867141bbae08ab5",
       "5b2876f933462df6",
       {100, 99900}},
  };
  for (const auto& row : rows) {
    const BlendArrays got = arrays(NativeBlend(row.weights), 100000);
    EXPECT_EQ(std::vector<std::int16_t>(got.members.begin(), got.members.begin() + 12), row.first);
    EXPECT_EQ(sha256_16(got.members), row.members);
    EXPECT_EQ(sha256_16(got.samples), row.samples);
    EXPECT_EQ(got.counts, row.counts);
  }
}

TEST(NativeBlend, KnownAnswerOfAWeightChange) {
  NativeBlend blend({5, 3, 2});
  blend.change_weights(1000, {1, 1, 8});
  const BlendArrays got = arrays(blend, 2000);
  EXPECT_EQ(sha256_16(got.members), "1867492ff56cab38");
  EXPECT_EQ(sha256_16(got.samples), "affb2adca2106f42");
  EXPECT_EQ(got.counts, (std::vector<std::int64_t>{600, 400, 1000}));
}

// Positions in any order give what a walk from the start gives, and counts follow.
TEST(NativeBlend, RandomAccessEqualsTheSequence) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream random(seed, "test.blend");
  std::uint64_t draw = 0;
  double worst = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> weights(1 + random.u64(draw++) % 30);
    for (auto& weight : weights) {
      const std::uint64_t range = random.u64(draw++) % 2 == 0 ? 10 : 1000000000;
      weight = random.u64(draw++) % range;
    }
    if (std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}) == 0) weights[0] = 1;
    const NativeBlend blend(weights);
    const auto total =
        static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    std::vector<std::uint64_t> counts(weights.size(), 0);
    for (std::uint64_t t = 0; t < 200; ++t) {
      const BlendItem item = blend.at(t);
      // Due first among all members: (2k+1)/w smallest, ties to the lowest.
      for (std::uint32_t i = 0; i < weights.size(); ++i) {
        if (weights[i] == 0) continue;
        __extension__ using Wide = unsigned __int128;
        const Wide other = Wide{2 * counts[i] + 1} * weights[item.member];
        const Wide mine = Wide{2 * counts[item.member] + 1} * weights[i];
        ASSERT_TRUE(i < item.member ? mine < other : mine <= other);
      }
      ASSERT_EQ(item.k, counts[item.member]);
      ++counts[item.member];
      for (std::size_t i = 0; i < weights.size(); ++i) {
        worst = std::max(
            worst, std::abs(static_cast<double>(counts[i]) -
                            static_cast<double>(weights[i]) * static_cast<double>(t + 1) / total));
      }
    }
    ASSERT_EQ(blend.counts(200), counts);
  }
  RecordProperty("largest_deviation", std::to_string(worst));
  EXPECT_LT(worst, 2.0);
}

std::shared_ptr<const Dataset> two_members(std::uint64_t weight_a, std::uint64_t weight_b) {
  return Dataset::from_members({{"a", make_mock_source(1, 1000, 50), weight_a},
                                {"b", make_mock_source(2, 333, 50), weight_b}});
}

TEST(NativeOrder, EachEpochGivesEachBlockOnce) {
  const auto order = NativeOrder::make(two_members(1, 0), {.seed = 7, .block_tokens = 16}).value();
  const std::uint64_t n = order.blocks_per_epoch(0);
  EXPECT_EQ(n, 999u / 16 - 1);
  std::set<std::uint64_t> phases;
  std::vector<std::uint64_t> first_epoch, second_epoch;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    std::set<std::uint64_t> units;
    for (std::uint64_t i = 0; i < n; ++i) {
      const OrderBlock block = order.at(epoch * n + i);
      EXPECT_EQ(block.epoch, epoch);
      EXPECT_EQ(block.length, 16u);
      EXPECT_LE(block.first + 17, 1000u);
      units.insert(block.unit);
      phases.insert(block.first - 16 * block.unit);
      if (epoch == 0) first_epoch.push_back(block.unit);
      if (epoch == 1) second_epoch.push_back(block.unit);
    }
    EXPECT_EQ(units.size(), n);
    EXPECT_EQ(*units.rbegin(), n - 1);
  }
  EXPECT_NE(first_epoch, second_epoch);
  EXPECT_GT(phases.size(), 1u);
  for (const std::uint64_t phase : phases) EXPECT_LT(phase, 16u);
}

TEST(NativeOrder, FollowsPermutationAndPhaseOfItsStreams) {
  const auto order = NativeOrder::make(two_members(1, 0), {.seed = 7, .block_tokens = 16}).value();
  const std::uint64_t n = order.blocks_per_epoch(0);
  for (std::uint64_t position : {std::uint64_t{0}, n - 1, n, 5 * n + 3}) {
    const OrderBlock block = order.at(position);
    const Permutation permutation(RandomStream(7, "data.order:a"), position / n, n);
    EXPECT_EQ(block.unit, permutation(position % n));
    EXPECT_EQ(block.first,
              RandomStream(7, "data.phase:a").u64(position / n) % 16 + 16 * block.unit);
  }
}

TEST(NativeOrder, TooShortAMemberIsAnErrorWithBothNumbers) {
  const auto order = NativeOrder::make(two_members(1, 1), {.seed = 7, .block_tokens = 333});
  ASSERT_FALSE(order.ok());
  EXPECT_NE(order.error().message.find("b has 333 tokens, a block takes 333 + 1"),
            std::string::npos);
  EXPECT_TRUE(NativeOrder::make(two_members(1, 1), {.seed = 7, .block_tokens = 332}).ok());
  EXPECT_TRUE(NativeOrder::make(two_members(1, 0), {.seed = 7, .block_tokens = 333}).ok());
}

TEST(SequentialOrder, CoversEachTargetOnce) {
  for (const std::uint64_t block_tokens : {1u, 7u, 332u, 333u, 5000u}) {
    const auto dataset = two_members(1, 1);
    const SequentialOrder order(*dataset, block_tokens);
    std::vector<std::vector<int>> hits{std::vector<int>(1000, 0), std::vector<int>(333, 0)};
    for (std::uint64_t p = 0; p < order.size(); ++p) {
      const OrderBlock block = order.at(p);
      for (std::uint64_t i = 0; i < block.length; ++i) ++hits[block.member][block.first + 1 + i];
    }
    for (const auto& member : hits) {
      EXPECT_EQ(member[0], 0);
      for (std::size_t i = 1; i < member.size(); ++i) ASSERT_EQ(member[i], 1);
    }
    EXPECT_EQ(order.num_targets(), 999u + 332u);
  }
}

}  // namespace
}  // namespace sx
