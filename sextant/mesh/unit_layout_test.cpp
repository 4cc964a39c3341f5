#include "sextant/mesh/unit_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sextant/base/check.h"
#include "sextant/mesh/shard_spec.h"

namespace sx {
namespace {

std::vector<UnitParam> params_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<UnitParam> params;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    params.push_back({.fqn = "p" + std::to_string(i), .shape = shapes[i]});
  return params;
}

using Owned = std::vector<std::tuple<std::size_t, std::int64_t, std::int64_t>>;
Owned owned(const UnitLayout& layout, std::int64_t coord) {
  Owned runs;
  for (const Segment& s : layout.segments(coord)) runs.emplace_back(s.param, s.begin, s.end);
  return runs;
}

TEST(UnitLayoutVectors, BucketOfMegatron) {
  for (const LayoutCompat compat : {LayoutCompat::kMegatron, LayoutCompat::kSextant}) {
    const UnitLayout layout(params_of({{10}, {200}, {7}}),
                            {.kind = LayoutKind::kBucket, .degree = 3, .compat = compat});
    ASSERT_EQ(layout.buckets().size(), 1u);
    EXPECT_EQ(layout.param_offset(2), 0);
    EXPECT_EQ(layout.param_offset(1), 64);
    EXPECT_EQ(layout.param_offset(0), 320);
    EXPECT_EQ(layout.buckets()[0].numel_unpadded, 330);
    EXPECT_EQ(layout.buckets()[0].numel, 384);
    EXPECT_EQ(layout.shard_numel(), 128);
    EXPECT_EQ(owned(layout, 0), (Owned{{2, 0, 7}, {1, 0, 64}}));
    EXPECT_EQ(owned(layout, 1), (Owned{{1, 64, 192}}));
    EXPECT_EQ(owned(layout, 2), (Owned{{1, 192, 200}, {0, 0, 10}}));
  }
}

TEST(UnitLayoutVectors, BucketPaddedForTheBusAndSharedEmbeddingAlone) {
  std::vector<UnitParam> params = params_of({{100}, {10}, {10}});
  params[1].own_bucket = true;
  const UnitLayout layout(params, {.kind = LayoutKind::kBucket,
                                   .degree = 3,
                                   .compat = LayoutCompat::kMegatron,
                                   .pad_for_bus = true});
  ASSERT_EQ(layout.buckets().size(), 3u);
  for (const LayoutBucket& bucket : layout.buckets()) {
    EXPECT_EQ(bucket.params.size(), 1u);
    EXPECT_EQ(bucket.numel, 3 * 65536);  // lcm(3, 128, 65536)
  }
  EXPECT_EQ(layout.buckets()[1].params[0], 1u);
}

TEST(UnitLayoutVectors, BucketClosesWhenFull) {
  const auto params = params_of({{60}, {60}, {60}, {60}, {60}});
  const UnitLayout plain(params, {.kind = LayoutKind::kBucketPlain,
                                  .degree = 4,
                                  .compat = LayoutCompat::kMegatron,
                                  .bucket_elements = 100});
  ASSERT_EQ(plain.buckets().size(), 3u);
  EXPECT_EQ(plain.buckets()[0].params, (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(plain.buckets()[1].params, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(plain.buckets()[2].params, (std::vector<std::size_t>{0}));
  EXPECT_EQ(plain.buckets()[1].begin, 120);
  EXPECT_EQ(plain.gathered_numel(), 300);
  EXPECT_EQ(plain.padding(), 0);
  for (std::int64_t coord = 0; coord < 4; ++coord)
    EXPECT_EQ(owned(plain, coord), owned(plain, 0)) << "every coordinate has all";

  const UnitLayout few(params, {.kind = LayoutKind::kBucketPlain, .degree = 4, .num_buckets = 2});
  EXPECT_EQ(few.buckets().size(), 2u);

  // 1 MiB, then 25 MiB of fp32.
  const UnitLayout torch(
      params_of({{4 << 20}, {4 << 20}, {4 << 20}, {1 << 18}}),
      {.kind = LayoutKind::kBucketPlain, .degree = 4, .compat = LayoutCompat::kTorch});
  ASSERT_EQ(torch.buckets().size(), 3u);
  EXPECT_EQ(torch.buckets()[0].params, (std::vector<std::size_t>{3}));
  EXPECT_EQ(torch.buckets()[1].params, (std::vector<std::size_t>{2, 1}));
}

TEST(UnitLayoutVectors, FlatOfFsdp1) {
  const UnitLayout layout(
      params_of({{5}, {7}, {4}}),
      {.kind = LayoutKind::kFlat, .degree = 4, .item_bytes = 4, .compat = LayoutCompat::kTorch});
  EXPECT_EQ(layout.param_offset(0), 0);
  EXPECT_EQ(layout.param_offset(1), 8);
  EXPECT_EQ(layout.param_offset(2), 16);
  EXPECT_EQ(layout.gathered_numel(), 20);
  EXPECT_EQ(layout.shard_numel(), 5);
  // Sextant's own alignment: 32 elements each, shards of whole 128-byte blocks.
  const UnitLayout own(params_of({{5}, {7}, {4}}), {.kind = LayoutKind::kFlat, .degree = 4});
  EXPECT_EQ(own.param_offset(2), 64);
  EXPECT_EQ(own.shard_numel(), 32);
  EXPECT_EQ(owned(own, 3), Owned{}) << "the last coordinates may be all padding";
}

TEST(UnitLayoutVectors, PerParamOfFsdp2) {
  const UnitLayout layout(
      params_of({{5, 3}}),
      {.kind = LayoutKind::kPerParam, .degree = 4, .compat = LayoutCompat::kTorch});
  EXPECT_EQ(layout.shard_numel(), 6);
  EXPECT_EQ(layout.gathered_numel(), 24);
  EXPECT_EQ(layout.full_numel(), 15);
  EXPECT_EQ(owned(layout, 0), (Owned{{0, 0, 6}}));
  EXPECT_EQ(owned(layout, 1), (Owned{{0, 6, 12}}));
  EXPECT_EQ(owned(layout, 2), (Owned{{0, 12, 15}}));
  EXPECT_EQ(owned(layout, 3), Owned{});
  for (std::int64_t coord = 0; coord < 3; ++coord) {
    const Segment& run = layout.segments(coord).front();
    EXPECT_EQ(run.gathered_offset, run.begin) << "one parameter: the gathered buffer's first 15";
  }
  const UnitLayout one(params_of({{1}}), {.kind = LayoutKind::kPerParam, .degree = 2});
  EXPECT_EQ(owned(one, 1), Owned{});
}

TEST(UnitLayoutVectors, PerParamAlongAnotherDim) {
  std::vector<UnitParam> params = params_of({{2, 5, 3}});
  params[0].shard_dim = 1;
  const UnitLayout layout(params, {.kind = LayoutKind::kPerParam, .degree = 2});
  EXPECT_EQ(owned(layout, 0), (Owned{{0, 0, 9}, {0, 15, 24}}));
  EXPECT_EQ(owned(layout, 1), (Owned{{0, 9, 15}, {0, 24, 30}}));
  EXPECT_EQ(layout.segments(1)[1].shard_offset, 6);
}

TEST(UnitLayoutVectors, BlocksAreNeverCut) {
  // Rows of 96 elements in blocks of 32, and a vector whose length is no whole number of blocks.
  const UnitLayout layout(params_of({{40, 96}, {50}, {7, 96}}),
                          {.kind = LayoutKind::kBlock, .degree = 5, .block_elements = 32});
  for (std::int64_t coord = 0; coord < 5; ++coord) {
    for (const Segment& run : layout.segments(coord)) {
      if (run.param == 1) {
        EXPECT_EQ(run.size(), 50);
      } else {
        EXPECT_EQ(run.begin % 32, 0);
        EXPECT_EQ(run.end % 32, 0);
      }
    }
  }
  EXPECT_LE(layout.padding(), 4 * 32 + 14 + 32);
}

TEST(UnitLayoutVectors, WholeTensorsBalanced) {
  const UnitLayout layout(params_of({{64}, {256}, {64}, {128}, {256}}),
                          {.kind = LayoutKind::kTensor, .degree = 3});
  EXPECT_EQ(layout.shard_numel(), 256);
  EXPECT_EQ(owned(layout, 0), (Owned{{1, 0, 256}}));
  EXPECT_EQ(owned(layout, 1), (Owned{{4, 0, 256}}));
  EXPECT_EQ(owned(layout, 2), (Owned{{0, 0, 64}, {2, 0, 64}, {3, 0, 128}}));
}

TEST(UnitLayoutVectors, SplitsLongUnits) {
  const auto runs = split_by_cap(params_of({{10}, {10}, {100}, {5}, {5}}), 4, 80);
  using Runs = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(runs, (Runs{{0, 2}, {2, 3}, {3, 5}}));
}

/// Who has element e of parameter p, found element by element: writes a unique number into a full
/// copy and collects it from the shards.
void check_by_elements(const UnitLayout& layout) {
  const std::int64_t shards = layout.num_shards();
  std::vector<int> gathered(static_cast<std::size_t>(layout.gathered_numel()), 0);
  std::map<std::size_t, std::vector<int>> seen;
  for (std::size_t p = 0; p < layout.params().size(); ++p)
    seen[p].assign(static_cast<std::size_t>(layout.params()[p].num_elements()), 0);
  for (std::int64_t coord = 0; coord < shards; ++coord) {
    std::int64_t last = 0;
    for (const Segment& run : layout.segments(coord)) {
      ASSERT_LT(run.begin, run.end);
      ASSERT_GE(run.shard_offset, last) << "segments overlap or are out of order";
      last = run.shard_offset + run.size();
      ASSERT_LE(last, layout.shard_numel());
      for (std::int64_t i = 0; i < run.size(); ++i) {
        ++seen[run.param][static_cast<std::size_t>(run.begin + i)];
        ++gathered[static_cast<std::size_t>(run.gathered_offset + i)];
      }
      // gathered = bucket region + coordinate's chunk + place in it
      const std::size_t b = layout.bucket_of(run.param);
      ASSERT_EQ(run.gathered_offset, layout.buckets()[b].begin +
                                         coord * layout.bucket_shard_numel(b) + run.shard_offset -
                                         layout.bucket_shard_offset(b));
      if (layout.zero_copy()) {
        ASSERT_EQ(run.gathered_offset, layout.param_offset(run.param) + run.begin);
      }
    }
  }
  for (const auto& [param, counts] : seen) {
    for (const int count : counts) ASSERT_EQ(count, 1) << "parameter " << param;
  }
  for (const int count : gathered) ASSERT_LE(count, 1);
}

void check_alignment(const UnitLayout& layout) {
  const LayoutOptions& options = layout.options();
  const std::int64_t align = options.align_bytes / options.item_bytes;
  ASSERT_EQ(layout.shard_numel() % align, 0);
  ASSERT_EQ(layout.full_numel() % align, 0);
  for (std::size_t b = 0; b < layout.buckets().size(); ++b)
    ASSERT_EQ(layout.bucket_shard_numel(b) % align, 0);
  for (std::size_t p = 0; p < layout.params().size(); ++p) {
    ASSERT_EQ(layout.param_offset(p) % align, 0);
    ASSERT_GE(layout.param_room(p), layout.params()[p].num_elements());
    ASSERT_EQ(layout.param_room(p) % align, 0);
  }
}

void check_blocks(const UnitLayout& layout, std::int64_t block) {
  for (std::int64_t coord = 0; coord < layout.num_shards(); ++coord) {
    for (const Segment& run : layout.segments(coord)) {
      const auto& shape = layout.params()[run.param].shape;
      const std::int64_t row = shape.empty() ? 1 : shape.back();
      for (const std::int64_t cut : {run.begin, run.end}) {
        if (cut == layout.params()[run.param].num_elements()) continue;
        ASSERT_EQ(cut % row % block, 0) << layout.to_string();
      }
    }
  }
}

std::vector<UnitParam> random_params(std::mt19937_64& random) {
  std::vector<std::vector<std::int64_t>> shapes(1 + random() % 6);
  for (auto& shape : shapes) {
    shape.resize(random() % 4);
    for (auto& rows : shape) rows = 1 + static_cast<std::int64_t>(random() % 12);
    if (random() % 8 == 0 && !shape.empty()) shape.back() = 32 * (1 + random() % 4);
    if (random() % 40 == 0 && !shape.empty()) shape[0] = 0;
  }
  std::vector<UnitParam> params = params_of(shapes);
  for (UnitParam& param : params) {
    if (!param.shape.empty()) param.shard_dim = static_cast<int>(random() % param.shape.size());
    param.own_bucket = random() % 10 == 0;
  }
  return params;
}

TEST(UnitLayoutProperty, TilesOwnsAndAligns) {
  constexpr std::uint64_t kSeed = 20261130;
  constexpr int kCases = 10'000;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    LayoutOptions options;
    options.kind = static_cast<LayoutKind>(random() % 6);
    options.degree = 1 + static_cast<std::int64_t>(random() % 9);
    options.item_bytes = std::int64_t{1} << random() % 4;
    options.compat = static_cast<LayoutCompat>(random() % 3);
    options.bucket_elements = 1 + static_cast<std::int64_t>(random() % 400);
    options.block_elements = static_cast<std::int64_t>(random() % 3) * 8;
    const UnitLayout layout(random_params(random), options);
    ASSERT_NO_FATAL_FAILURE(check_by_elements(layout));
    if (options.compat == LayoutCompat::kSextant) {
      ASSERT_NO_FATAL_FAILURE(check_alignment(layout));
    }
    if (options.kind == LayoutKind::kBlock && options.block_elements > 0) {
      ASSERT_NO_FATAL_FAILURE(check_blocks(layout, options.block_elements));
    }
  }
}

TEST(UnitLayoutProperty, OddSizes) {
  for (const std::int64_t numel : {1, 7, 127}) {
    for (const std::int64_t degree : {3, 5, 8}) {
      for (int kind = 0; kind < 6; ++kind) {
        const UnitLayout layout(params_of({{numel}}),
                                {.kind = static_cast<LayoutKind>(kind), .degree = degree});
        ASSERT_NO_FATAL_FAILURE(check_by_elements(layout));
        ASSERT_NO_FATAL_FAILURE(check_alignment(layout));
      }
    }
  }
}

TEST(UnitLayoutProperty, PerParamAgreesWithShardSpec) {
  constexpr std::uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const std::int64_t degree = 1 + static_cast<std::int64_t>(random() % 6);
    const UnitLayout layout(random_params(random),
                            {.kind = LayoutKind::kPerParam, .degree = degree});
    for (std::size_t p = 0; p < layout.params().size(); ++p) {
      const UnitParam& param = layout.params()[p];
      if (param.shape.empty()) continue;
      const ShardSpec spec(param.shape, "", {{Axis::kDpShard, Shard{param.shard_dim}}});
      for (std::int64_t coord = 0; coord < degree; ++coord) {
        std::int64_t own = 0;
        for (const Segment& run : layout.segments(coord)) own += run.param == p ? run.size() : 0;
        const std::int64_t degrees[] = {degree}, coords[] = {coord};
        ASSERT_EQ(own, spec.local_box(degrees, coords).num_elements());
      }
    }
  }
}

// The padding of an 8B-like layer in the block layout stays far below the one percent at which a
// unit falls back to per-parameter sharding.
TEST(UnitLayoutProperty, BlockPadsLittle) {
  const auto layer = params_of({{4096},
                                {4096, 4096},
                                {1024, 4096},
                                {1024, 4096},
                                {4096, 4096},
                                {4096},
                                {14336, 4096},
                                {14336, 4096},
                                {4096, 14336}});
  for (const std::int64_t degree : {2, 3, 8, 64, 96, 512}) {
    const UnitLayout layout(
        layer,
        {.kind = LayoutKind::kBlock, .degree = degree, .item_bytes = 2, .block_elements = 128});
    ASSERT_NO_FATAL_FAILURE(check_blocks(layout, 128));
    EXPECT_LE(layout.padding(), (degree - 1) * 128 + degree * 64) << degree;
    EXPECT_LT(static_cast<double>(layout.padding()),
              0.01 * static_cast<double>(layout.num_elements()));
  }
}

TEST(UnitLayoutProperty, WrongInputIsAContractError) {
  EXPECT_THROW(UnitLayout(params_of({{3}}), {.degree = 0}), ContractError);
  std::vector<UnitParam> params = params_of({{3}});
  params[0].shard_dim = 1;
  EXPECT_THROW(UnitLayout(params, {.kind = LayoutKind::kPerParam, .degree = 2}), ContractError);
  EXPECT_THROW(UnitLayout(params_of({{3}}), {.degree = 2}).segments(2), ContractError);
}

}  // namespace
}  // namespace sx
