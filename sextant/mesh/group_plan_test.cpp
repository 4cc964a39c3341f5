#include "sextant/mesh/group_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"

namespace sx {
namespace {

std::vector<GroupRequest> requests_for(std::initializer_list<AxisSet> views) {
  std::vector<GroupRequest> requests;
  for (const AxisSet axes : views) requests.push_back({axes, Purpose::kControl});
  return requests;
}

const std::initializer_list<AxisSet> kAllViews = {
    Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
    kFsdpAxes, kDataAxes,          kLossAxes,      Axis::kEp, Axis::kEdp};

TEST(GroupPlan, SixtyFourRanks) {
  const DeviceMesh mesh(
      {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 4, .ep = 4, .etp = 1});
  auto requests = requests_for(kAllViews);
  requests.push_back({Axis::kEtp, Purpose::kControl});  // degree 1: creates nothing
  const GroupPlan plan(mesh, requests);
  EXPECT_EQ(plan.num_named(), 216);
  EXPECT_EQ(plan.groups().size(), 184u);
  EXPECT_EQ(plan.num_of(0), 8);
  const std::size_t tp = plan.index_of(Axis::kTp, Purpose::kControl, 0).value();
  EXPECT_EQ(plan.index_of(Axis::kEp, Purpose::kControl, 0), tp);
  EXPECT_EQ(plan.groups()[tp].also, std::vector<AxisSet>{Axis::kEp});
  EXPECT_EQ(plan.index_of(Axis::kEdp, Purpose::kControl, 0),
            plan.index_of(kFsdpAxes, Purpose::kControl, 0));
  EXPECT_FALSE(plan.index_of(Axis::kEtp, Purpose::kControl, 0));
  EXPECT_THROW(plan.index_of(Axis::kTp, Purpose::kGather, 0), ContractError);
}

TEST(GroupPlan, TwoByFour) {
  const GroupPlan plan(DeviceMesh({.dp_replicate = 2, .dp_shard = 4}),
                       requests_for({Axis::kDpReplicate, Axis::kDpShard}));
  EXPECT_EQ(plan.groups().size(), 6u);
  EXPECT_EQ(plan.text(),
            "mesh dp_replicate2 dp_shard4 order pp,dp_replicate,dp_shard,cp,tp\n"
            "ranks 8\n"
            "group 0 control dp_replicate: 0 4\n"
            "group 1 control dp_replicate: 1 5\n"
            "group 2 control dp_replicate: 2 6\n"
            "group 3 control dp_replicate: 3 7\n"
            "group 4 control dp_shard: 0 1 2 3\n"
            "group 5 control dp_shard: 4 5 6 7\n");
  EXPECT_EQ(plan.hash(), xxh64(plan.text()));
}

TEST(GroupPlan, PurposesAreSeparateAndTheWorldIsShared) {
  const DeviceMesh mesh({.dp_shard = 4});
  const std::vector<GroupRequest> requests{{AxisSet::world(), Purpose::kControl},
                                           {Axis::kDpShard, Purpose::kGather},
                                           {Axis::kDpShard, Purpose::kReduce},
                                           {kLossAxes, Purpose::kControl},
                                           {Axis::kDpShard, Purpose::kGather}};
  const GroupPlan plan(mesh, requests);
  EXPECT_EQ(plan.groups().size(), 3u);
  EXPECT_EQ(plan.num_named(), 4);
  EXPECT_EQ(plan.index_of(kLossAxes, Purpose::kControl, 2), 0u);
  EXPECT_EQ(plan.index_of(Axis::kDpShard, Purpose::kReduce, 2), 2u);
}

TEST(GroupPlan, FirstDifferingLine) {
  const auto plan_text = [](const ParallelDims& dims) {
    return GroupPlan(DeviceMesh(dims), requests_for({Axis::kDpReplicate, Axis::kDpShard}))
        .text(std::vector<std::string>{"sextant 1"});
  };
  const std::string a = plan_text({.dp_replicate = 2, .dp_shard = 4});
  const std::string b = plan_text({.dp_replicate = 4, .dp_shard = 2});
  EXPECT_FALSE(first_difference(a, a));
  const auto found = first_difference(a, b);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line, 2);
  EXPECT_EQ(found->ours, "mesh dp_replicate2 dp_shard4 order pp,dp_replicate,dp_shard,cp,tp");
  EXPECT_EQ(found->theirs, "mesh dp_replicate4 dp_shard2 order pp,dp_replicate,dp_shard,cp,tp");
  const auto shorter = first_difference("x\ny\n", "x\n");
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->line, 2);
  EXPECT_EQ(shorter->theirs, "");
}

TEST(GroupPlan, CountsAgreeWithSets) {
  constexpr std::uint64_t kSeed = 8;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const auto pick = [&] { return 1 + static_cast<std::int64_t>(random() % 3); };
    const ParallelDims dims{.pp = pick(),
                            .dp_replicate = pick(),
                            .dp_shard = pick(),
                            .cp = pick(),
                            .tp = pick(),
                            .ep = pick()};
    if (!dims.faults().empty()) continue;
    const DeviceMesh mesh(dims);
    const GroupPlan plan(mesh, requests_for(kAllViews));
    std::set<std::vector<std::int64_t>> distinct;
    std::int64_t named = 0;
    for (const AxisSet axes : kAllViews) {
      // Brute force: the group of each rank, found one by one.
      std::set<std::vector<std::int64_t>> of_view;
      for (std::int64_t rank = 0; rank < mesh.world_size(); ++rank) {
        auto ranks = mesh.ranks_along(axes, rank);
        if (ranks.size() == 1) continue;
        const auto index = plan.index_of(axes, Purpose::kControl, rank);
        ASSERT_TRUE(index);
        EXPECT_EQ(plan.groups()[*index].ranks, ranks);
        of_view.insert(std::move(ranks));
      }
      named += static_cast<std::int64_t>(of_view.size());
      distinct.merge(of_view);
    }
    EXPECT_EQ(plan.num_named(), named);
    EXPECT_EQ(plan.groups().size(), distinct.size());
  }
}

// 1,024 ranks with all views: found by every rank at start.
TEST(GroupPlan, AThousandRanks) {
  const DeviceMesh mesh({.pp = 4, .dp_replicate = 4, .dp_shard = 8, .cp = 1, .tp = 8, .ep = 8});
  const GroupPlan plan(mesh, requests_for(kAllViews));
  EXPECT_EQ(plan.num_of(0), plan.num_of(1023));
  EXPECT_NE(plan.hash(), GroupPlan(mesh, requests_for({Axis::kTp})).hash());
}

}  // namespace
}  // namespace sx
