#include "sextant/mesh/shard_spec.h"

#include <gtest/gtest.h>

#include <random>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::vector<std::pair<std::int64_t, std::int64_t>> rows_of(std::int64_t n, std::int64_t tp,
                                                           std::int64_t dp) {
  const DeviceMesh mesh({.dp_shard = dp, .tp = tp});
  const ShardSpec spec({n, 3}, "F32", {{Axis::kTp, Shard{0}}, {Axis::kDpShard, Shard{0}}});
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  for (std::int64_t t = 0; t < tp; ++t) {
    for (std::int64_t d = 0; d < dp; ++d) {
      Coords at;
      at[Axis::kTp] = t;
      at[Axis::kDpShard] = d;
      const Box box = spec.local_box(mesh, mesh.rank(at));
      EXPECT_EQ(box.size[1], 3);
      rows.emplace_back(box.offset[0], box.offset[0] + box.size[0]);
    }
  }
  return rows;
}

TEST(ShardSpec, TensorParallelThenData) {
  using Rows = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(rows_of(8, 2, 2), (Rows{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(rows_of(10, 2, 4),
            (Rows{{0, 2}, {2, 4}, {4, 5}, {5, 5}, {5, 7}, {7, 9}, {9, 10}, {10, 10}}));
}

TEST(ShardSpec, ChunksMayBeShortOrEmpty) {
  EXPECT_EQ(chunk_range(5, 4, 0), (RowRange{0, 2}));
  EXPECT_EQ(chunk_range(5, 4, 2), (RowRange{4, 5}));
  EXPECT_EQ(chunk_range(5, 4, 3).size(), 0);
  EXPECT_EQ(chunk_range(0, 3, 1).size(), 0);
  EXPECT_THROW(chunk_range(5, 4, 4), ContractError);
}

TEST(ShardSpec, Rules) {
  EXPECT_THROW(ShardSpec({2}, "", {{Axis::kTp, Shard{1}}}), ContractError);
  EXPECT_THROW(ShardSpec({}, "", {{Axis::kTp, Shard{0}}}), ContractError);
  EXPECT_THROW(ShardSpec({}, "", {{Axis::kTp, Partial{}}}), ContractError);
  EXPECT_THROW(ShardSpec({2}, "", {{Axis::kTp, Shard{0}}, {Axis::kTp, Replicate{}}}),
               ContractError);
  EXPECT_THROW(ShardSpec({2}, "", {{kFsdpAxes, Shard{0}}, {Axis::kCp, Replicate{}}}),
               ContractError);
  const ShardSpec scalar({}, "F32", {{Axis::kTp, Replicate{}}});
  EXPECT_EQ(scalar.local_box(DeviceMesh({.tp = 2}), 1).num_elements(), 1);
  const ShardSpec spec({5, 3}, "BF16", {{Axis::kTp, Shard{1}}, {kFsdpAxes, Partial{}}});
  EXPECT_EQ(spec.to_string(), "[5,3] BF16 tp:shard(1) dp_shard+cp:partial(sum)");
  EXPECT_TRUE(spec.has_partial());
  EXPECT_EQ(spec, ShardSpec({5, 3}, "BF16", {{Axis::kTp, Shard{1}}}).then(kFsdpAxes, Partial{}));
}

/// Marks each element of the global tensor with the number of coordinates that have it.
TEST(ShardSpecProperty, BoxesTile) {
  constexpr std::uint64_t kSeed = 9;
  std::mt19937_64 random(kSeed);
  const Axis axes[] = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const auto pick = [&] { return 1 + static_cast<std::int64_t>(random() % 3); };
    const DeviceMesh mesh(
        {.pp = pick(), .dp_replicate = pick(), .dp_shard = pick(), .cp = pick(), .tp = pick()});
    std::vector<std::int64_t> shape(1 + random() % 3);
    for (auto& rows : shape) rows = static_cast<std::int64_t>(random() % 8);
    std::vector<Axis> order(std::begin(axes), std::end(axes));
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % 5);
    std::vector<AxisPlacement> placements;
    std::int64_t copies = mesh.world_size();
    for (const Axis axis : order) {
      if (random() % 4 == 0) {
        placements.push_back({axis, Replicate{}});
      } else {
        placements.push_back({axis, Shard{static_cast<int>(random() % shape.size())}});
        copies /= mesh.degree(axis);
      }
    }
    const ShardSpec spec(shape, "F32", placements);
    std::vector<std::int64_t> seen(static_cast<std::size_t>(spec.num_elements()), 0);
    for (std::int64_t rank = 0; rank < mesh.world_size(); ++rank) {
      const Box box = spec.local_box(mesh, rank);
      for (std::int64_t e = 0; e < box.num_elements(); ++e) {
        std::int64_t left = e, global = 0;
        std::vector<std::int64_t> index(shape.size());
        for (std::size_t d = shape.size(); d-- > 0;) {
          index[d] = box.offset[d] + left % box.size[d];
          left /= box.size[d];
        }
        for (std::size_t d = 0; d < shape.size(); ++d) global = global * shape[d] + index[d];
        ++seen[static_cast<std::size_t>(global)];
      }
    }
    for (const std::int64_t count : seen) ASSERT_EQ(count, copies) << spec.to_string();
  }
}

}  // namespace
}  // namespace sx
