#include "sextant/mesh/device_mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "sextant/base/check.h"

namespace sx {
namespace {

using Ranks = std::vector<std::int64_t>;
using Groups = std::vector<Ranks>;

DeviceMesh mesh_of(const ParallelDims& dims, const std::string& order) {
  const Result<RankOrder> parsed = parse_rank_order(order, dims);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return DeviceMesh(dims, parsed.value());
}

TEST(ParallelDims, Rules) {
  const ParallelDims good{
      .pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 4, .ep = 4, .etp = 1};
  EXPECT_TRUE(good.faults(64).empty());
  EXPECT_EQ(good.world_size(), 64);
  EXPECT_EQ(good.edp(), 4);
  EXPECT_EQ(good.to_string(), "pp2 dp_replicate2 dp_shard2 cp2 tp4 ep4");

  const auto both = ParallelDims{.dp_shard = 2, .tp = 3, .ep = 4}.faults(8);
  ASSERT_EQ(both.size(), 2u) << "every broken rule is listed";
  EXPECT_EQ(both[0].code(), "SX2-011");
  EXPECT_EQ(both[0].what, "ep * etp = 4 * 1 does not divide dp_shard * cp * tp = 2 * 1 * 3 = 6");
  EXPECT_EQ(both[1].code(), "SX2-010");
  EXPECT_NE(both[1].what.find("= 6, but there are 8 ranks"), std::string::npos) << both[1].what;

  const auto zero = ParallelDims{.pp = 0, .tp = -1}.faults();
  ASSERT_EQ(zero.size(), 2u);
  EXPECT_EQ(zero[0].what, "parallelism.pp = 0");
  const std::int64_t big = std::int64_t{1} << 31;
  EXPECT_EQ((ParallelDims{.dp_shard = big, .tp = big}.faults().at(0).number), 3);
  EXPECT_EQ((ParallelDims{.ep = big, .etp = big}.faults().at(0).number), 11);
}

TEST(DeviceMesh, TwoByFour) {
  const DeviceMesh mesh({.dp_replicate = 2, .dp_shard = 4});
  EXPECT_EQ(mesh.all_groups(Axis::kDpShard), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(mesh.all_groups(Axis::kDpReplicate), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.coord(6, Axis::kDpReplicate), 1);
  EXPECT_EQ(mesh.coord(6, Axis::kDpShard), 2);
  EXPECT_EQ(mesh.ranks_along(AxisSet::world(), 3).size(), 8u);
  EXPECT_EQ(mesh.coord(6, kLossAxes), 6);
  EXPECT_EQ(mesh.ranks_along(Axis::kTp, 5), Ranks{5});
}

TEST(DeviceMesh, MegatronDataGroups) {
  // The example in the comments of Megatron-LM's parallel_state.py: tp 2, pp 4, dp 3.
  const DeviceMesh mesh = mesh_of({.pp = 4, .dp_shard = 3, .tp = 2}, "tp-dp-pp");
  EXPECT_EQ(mesh.all_groups(Axis::kDpShard), (Groups{{0, 2, 4},
                                                     {1, 3, 5},
                                                     {6, 8, 10},
                                                     {7, 9, 11},
                                                     {12, 14, 16},
                                                     {13, 15, 17},
                                                     {18, 20, 22},
                                                     {19, 21, 23}}));
}

TEST(DeviceMesh, SixtyFourRanks) {
  const DeviceMesh mesh(
      {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 4, .ep = 4, .etp = 1});
  EXPECT_EQ(mesh.ranks_along(Axis::kTp, 0), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(mesh.ranks_along(Axis::kEp, 0), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(mesh.ranks_along(kFsdpAxes, 0), (Ranks{0, 4, 8, 12}));
  EXPECT_EQ(mesh.ranks_along(Axis::kEdp, 0), (Ranks{0, 4, 8, 12}));
  EXPECT_EQ(mesh.degree(kLossAxes), 8);
  EXPECT_EQ(mesh.degree(AxisSet(Axis::kDpReplicate) | Axis::kEdp), 8);
  EXPECT_THROW(mesh.degree(AxisSet(Axis::kTp) | Axis::kEp), ContractError);
  EXPECT_THROW(mesh.coords(64), ContractError);
}

TEST(DeviceMesh, RankOffset) {
  const DeviceMesh mesh({.dp_shard = 2, .tp = 2}, {}, 8);
  EXPECT_EQ(mesh.all_groups(Axis::kTp), (Groups{{8, 9}, {10, 11}}));
  EXPECT_EQ(mesh.coord(10, Axis::kDpShard), 1);
  EXPECT_FALSE(mesh.has_rank(3));
  EXPECT_FALSE(mesh == DeviceMesh({.dp_shard = 2, .tp = 2}));
}

TEST(DeviceMesh, EqualByStructure) {
  const ParallelDims dims{.pp = 2, .dp_shard = 4, .tp = 2};
  EXPECT_EQ(DeviceMesh(dims), mesh_of(dims, "tp-cp-ep-dp-pp"));
  EXPECT_EQ(DeviceMesh(dims), mesh_of(dims, "[pp, dp_replicate, dp_shard, cp, tp]"));
  EXPECT_EQ(DeviceMesh(dims), mesh_of(dims, "pp,dp_shard,tp"));
  EXPECT_FALSE(DeviceMesh(dims) == mesh_of(dims, "dp,pp,tp"));
  EXPECT_FALSE(DeviceMesh(dims) == DeviceMesh({.pp = 2, .dp_shard = 2, .tp = 4}));
}

TEST(DeviceMesh, WithoutLostRanks) {
  const DeviceMesh mesh({.dp_replicate = 3, .dp_shard = 2, .tp = 2});
  const auto one = mesh.without({5});  // replica 1, shard 0
  ASSERT_TRUE(one);
  EXPECT_EQ(one->mesh.dims(), (ParallelDims{.dp_replicate = 2, .dp_shard = 2, .tp = 2}));
  EXPECT_EQ(one->old_ranks, (Ranks{0, 1, 2, 3, 6, 7, 8, 9}));
  EXPECT_EQ(one->spare_ranks, (Ranks{4, 10, 11}));

  const auto single = DeviceMesh({.dp_shard = 4}).without({1});
  ASSERT_TRUE(single);
  EXPECT_EQ(single->mesh.dims(), (ParallelDims{.dp_shard = 3}));
  EXPECT_EQ(single->old_ranks, (Ranks{0, 2, 3}));

  const auto experts = DeviceMesh({.dp_shard = 4, .ep = 2}).without({0});
  ASSERT_TRUE(experts);
  EXPECT_EQ(experts->mesh.dims().dp_shard, 2) << "3 ranks do not hold 2 groups of experts";
  EXPECT_FALSE(DeviceMesh({.tp = 4}).without({2})) << "no whole copy is left";
  EXPECT_EQ(mesh.without({})->mesh, mesh);
}

TEST(RankOrder, Faults) {
  const ParallelDims dims{.pp = 2, .dp_shard = 4, .tp = 2, .ep = 4};
  const auto message = [&](const std::string& text) {
    const auto parsed = parse_rank_order(text, dims);
    return parsed.ok() ? "ok: " + parsed.value().to_string() : parsed.error().message;
  };
  EXPECT_EQ(message("tp-tp-pp"), "\"tp-tp-pp\" names tp twice");
  EXPECT_EQ(message("tp-xp"), "\"xp\" in \"tp-xp\" is none of tp cp ep dp pp");
  EXPECT_EQ(message("tp-dp-ep"), "\"tp-dp-ep\" does not name pp, whose degree is 2");
  EXPECT_EQ(
      message("tp-ep-pp-dp"),
      "\"tp-ep-pp-dp\" does not end in pp, and edp = 2 differs from dp_shard = 4 with pp = 2");
  EXPECT_EQ(message("pp,dp"), "\"pp,dp\" does not name tp, whose degree is 2");
  EXPECT_EQ(message("pp,dp,dp_shard,tp"), "\"pp,dp,dp_shard,tp\" names dp_shard twice");
  EXPECT_EQ(message("dp,pp,tp,ep,edp"),
            "\"dp,pp,tp,ep,edp\" joins other ranks into pipelines for expert than for dense "
            "parameters");
  EXPECT_EQ(message("TP-CP-EP-DP-PP"),
            "ok: pp,dp_replicate,dp_shard,cp,tp / pp,dp_replicate,edp,ep,etp");
  EXPECT_NE(message("").find("is no axis"), std::string::npos);
  EXPECT_THROW(DeviceMesh(dims, parse_rank_order("dp,pp,tp,ep,edp", {}).value()), ContractError);
}

TEST(RankOrder, ExpertsNestedAroundAPipelineInside) {
  // Pipelines of neighbouring dp_shard, tp pairs: ep takes tp and half of dp_shard.
  const DeviceMesh mesh = mesh_of({.pp = 2, .dp_shard = 4, .tp = 2, .ep = 4}, "dp,pp,tp");
  EXPECT_EQ(mesh.ranks_along(Axis::kPp, 0), (Ranks{0, 2}));
  EXPECT_EQ(mesh.ranks_along(Axis::kEp, 0), (Ranks{0, 1, 4, 5}));
  EXPECT_EQ(mesh.ranks_along(Axis::kEdp, 0), (Ranks{0, 8}));
  EXPECT_EQ(mesh.coord(13, Axis::kEp), 3);
}

TEST(RankOrder, ArraysOfOthers) {
  // picotron reshapes the ranks to (dp, pp, cp, tp).
  const DeviceMesh picotron = mesh_of({.pp = 2, .dp_shard = 2, .cp = 3, .tp = 2}, "dp,pp,cp,tp");
  EXPECT_EQ(picotron.ranks_along(Axis::kDpShard, 0), (Ranks{0, 12}));
  EXPECT_EQ(picotron.ranks_along(Axis::kPp, 0), (Ranks{0, 6}));
  EXPECT_EQ(picotron.ranks_along(Axis::kCp, 0), (Ranks{0, 2, 4}));
  // nanotron reshapes to (ep, pp, dp, cp, tp): with dp = 1 its ep is the dense view's dp_shard.
  const DeviceMesh nanotron =
      mesh_of({.pp = 2, .dp_shard = 4, .tp = 2, .ep = 4}, "ep,dp_shard,pp,cp,tp,edp");
  EXPECT_EQ(nanotron.ranks_along(Axis::kEp, 0), (Ranks{0, 4, 8, 12}));
  EXPECT_EQ(nanotron.ranks_along(Axis::kPp, 0), (Ranks{0, 2}));
  EXPECT_EQ(nanotron.ranks_along(Axis::kTp, 0), (Ranks{0, 1}));
}

/// An independent definition of Megatron's groups: all ranks written as mixed-radix numbers,
/// leftmost token fastest; ranks with equal digits in all tokens that are not named form a group.
Groups groups_by_digits(const std::vector<std::pair<std::string, std::int64_t>>& ordered,
                        const std::set<std::string>& named) {
  std::int64_t world = 1;
  for (const auto& [token, size] : ordered) world *= size;
  std::map<Ranks, Ranks> by_rest;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    std::int64_t left = rank;
    Ranks rest;
    for (const auto& [token, size] : ordered) {
      if (!named.contains(token)) rest.push_back(left % size);
      left /= size;
    }
    by_rest[rest].push_back(rank);
  }
  Groups groups;
  for (auto& [rest, ranks] : by_rest) groups.push_back(ranks);
  std::sort(groups.begin(), groups.end());
  return groups;
}

TEST(RankOrder, MegatronGroupsByDigits) {
  constexpr std::uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  int checked = 0;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const auto pick = [&] { return std::int64_t{1} << random() % 3; };
    ParallelDims dims{.pp = pick(),
                      .dp_replicate = pick(),
                      .dp_shard = pick() * (random() % 4 == 0 ? 3 : 1),
                      .cp = pick(),
                      .tp = pick(),
                      .ep = pick(),
                      .etp = pick()};
    if (!dims.faults().empty()) continue;
    std::vector<std::string> tokens{"tp", "cp", "ep", "dp", "pp"};
    std::shuffle(tokens.begin(), tokens.end(), random);
    std::string text;
    for (const std::string& token : tokens) text += (text.empty() ? "" : "-") + token;

    const std::int64_t dp = dims.dp_replicate * dims.dp_shard;
    const std::int64_t edp = dims.dp_replicate * dims.edp();
    std::vector<std::pair<std::string, std::int64_t>> dense, expert;
    for (const std::string& token : tokens) {
      dense.emplace_back(token, token == "tp"   ? dims.tp
                                : token == "cp" ? dims.cp
                                : token == "dp" ? dp
                                : token == "pp" ? dims.pp
                                                : 1);
      expert.emplace_back(token, token == "tp"   ? dims.etp
                                 : token == "ep" ? dims.ep
                                 : token == "dp" ? edp
                                 : token == "pp" ? dims.pp
                                                 : 1);
    }
    // Without expert parallelism Sextant does not ask for the rule, and has no second generator.
    const bool experts = dims.ep * dims.etp > 1;
    const bool allowed = !experts || tokens.back() == "pp" || dims.pp == 1 || dp == edp;
    const Result<RankOrder> order = parse_rank_order(text, dims);
    const bool same_pp = groups_by_digits(dense, {"pp"}) == groups_by_digits(expert, {"pp"});
    ASSERT_EQ(order.ok(), allowed && (same_pp || !experts)) << text << " " << dims.to_string();
    if (!order.ok()) continue;
    ++checked;
    const DeviceMesh mesh(dims, order.value());
    const AxisSet data = kDataAxes, expert_data = AxisSet(Axis::kDpReplicate) | Axis::kEdp;
    EXPECT_EQ(mesh.all_groups(Axis::kTp), groups_by_digits(dense, {"tp"}));
    EXPECT_EQ(mesh.all_groups(Axis::kCp), groups_by_digits(dense, {"cp"}));
    EXPECT_EQ(mesh.all_groups(Axis::kPp), groups_by_digits(dense, {"pp"}));
    EXPECT_EQ(mesh.all_groups(data), groups_by_digits(dense, {"dp"}));
    EXPECT_EQ(mesh.all_groups(data | Axis::kCp), groups_by_digits(dense, {"dp", "cp"}));
    EXPECT_EQ(mesh.all_groups(AxisSet(Axis::kTp) | Axis::kPp),
              groups_by_digits(dense, {"tp", "pp"}));
    if (!experts) continue;
    EXPECT_EQ(mesh.all_groups(Axis::kEtp), groups_by_digits(expert, {"tp"}));
    EXPECT_EQ(mesh.all_groups(Axis::kEp), groups_by_digits(expert, {"ep"}));
    EXPECT_EQ(mesh.all_groups(expert_data), groups_by_digits(expert, {"dp"}));
    EXPECT_EQ(mesh.all_groups(AxisSet(Axis::kEtp) | Axis::kEp),
              groups_by_digits(expert, {"tp", "ep"}));
  }
  EXPECT_GT(checked, 300);
}

TEST(DeviceMeshProperty, BijectionAndPartition) {
  constexpr std::uint64_t kSeed = 6;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const auto pick = [&] { return 1 + static_cast<std::int64_t>(random() % 3); };
    ParallelDims dims{.pp = pick(),
                      .dp_replicate = pick(),
                      .dp_shard = pick(),
                      .cp = pick(),
                      .tp = pick(),
                      .ep = pick(),
                      .etp = pick()};
    if (!dims.faults().empty()) continue;
    const DeviceMesh mesh(dims, {}, static_cast<std::int64_t>(random() % 5));
    const std::int64_t first = mesh.rank_offset(), last = first + mesh.world_size();
    for (std::int64_t rank = first; rank < last; ++rank)
      ASSERT_EQ(mesh.rank(mesh.coords(rank)), rank);
    for (int trial = 0; trial < 4; ++trial) {
      AxisSet axes;
      const bool expert = random() % 2 == 0;
      for (const Axis axis : expert ? mesh.order().expert : mesh.order().dense) {
        if (random() % 2 == 0) axes = axes | axis;
      }
      std::set<std::int64_t> covered;
      for (const Ranks& group : mesh.all_groups(axes)) {
        ASSERT_EQ(static_cast<std::int64_t>(group.size()), mesh.degree(axes));
        ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
        for (std::size_t place = 0; place < group.size(); ++place) {
          ASSERT_TRUE(covered.insert(group[place]).second);
          ASSERT_EQ(mesh.coord(group[place], axes), static_cast<std::int64_t>(place));
          ASSERT_EQ(mesh.ranks_along(axes, group[place]), group);
          // Members differ on these axes only.
          const Coords a = mesh.coords(group[0]), b = mesh.coords(group[place]);
          for (const Axis axis : expert ? mesh.order().expert : mesh.order().dense) {
            if (axes.contains(axis)) continue;
            ASSERT_EQ(a[axis], b[axis]);
          }
        }
      }
      ASSERT_EQ(static_cast<std::int64_t>(covered.size()), mesh.world_size());
    }
  }
}

}  // namespace
}  // namespace sx
