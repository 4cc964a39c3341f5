// Which groups the engine makes, and that all ranks mean the same ones before any is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sextant/base/diagnostic.h"
#include "sextant/dist/fake.h"
#include "sextant/dp/data_comms.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using ::testing::HasSubstr;

using Group = std::pair<std::vector<std::int64_t>, std::string>;  // ranks, purpose

/// Communicators that `rank` of R x W has besides its world, in the order in which it made them.
std::vector<Group> groups_of(std::int64_t rank, std::int64_t replicas, std::int64_t shards,
                             bool separate) {
  Communicator world = fake_world(replicas * shards, rank);
  const DataComms comms(world, replicas, shards, separate);
  std::vector<Group> groups;
  for (const FlightGroup& group : world.session().recorder().snapshot("").groups)
    groups.emplace_back(group.ranks, group.purpose);
  groups.erase(groups.begin());  // the world, made before
  return groups;
}

// RFC #158793, #118849, PR #124780: a communicator for each use instead of each set of ranks, and
// ranks that make them in another order, which then wait for each other.
TEST(Complaints, EachSetOfRanksHasOneGroupAndOneOrder) {
  for (const bool separate : {true, false}) {
    for (const auto& [replicas, shards] :
         {std::pair<std::int64_t, std::int64_t>{8, 8}, {1, 64}, {64, 1}, {2, 32}, {32, 2}}) {
      ParallelDims dims;
      dims.dp_replicate = replicas;
      dims.dp_shard = shards;
      const GroupPlan plan(DeviceMesh(dims), DataComms::requests(separate));
      std::vector<Group> planned;
      for (const PlannedGroup& group : plan.groups())
        planned.emplace_back(group.ranks, to_string(group.purpose));
      std::map<Group, int> members;
      for (std::int64_t rank = 0; rank < 64; ++rank) {
        const std::vector<Group> made = groups_of(rank, replicas, shards, separate);
        EXPECT_EQ(std::ssize(made), plan.num_of(rank));
        // In the plan's order: each next one is found behind the one before it.
        auto at = planned.begin();
        for (const Group& group : made) {
          at = std::find(at, planned.end(), group);
          ASSERT_NE(at, planned.end()) << "rank " << rank;
          ++at;
          ++members[group];
        }
      }
      // As many as there are distinct sets in use, and every member made each of its own once.
      EXPECT_EQ(members.size(), std::set<Group>(planned.begin(), planned.end()).size());
      EXPECT_EQ(members.size(), planned.size());
      for (const auto& [group, count] : members) EXPECT_EQ(count, std::ssize(group.first));
    }
  }
}

TEST(DataComms, SharesWhatMeansTheSameRanks) {
  rank_test(4, [](Communicator& world) {
    {
      DataComms comms(world, 1, 4);
      EXPECT_EQ(&comms.reduce(), &comms.all());  // both: reductions over all ranks
      EXPECT_NE(&comms.gather(), &comms.reduce());
      EXPECT_EQ(comms.replicate().degree(), 1);
    }
    DataComms comms(world, 2, 2, /*separate=*/false);
    EXPECT_EQ(&comms.gather(), &comms.reduce());
    EXPECT_EQ(comms.all().degree(), 4);
  });
}

TEST(DataComms, AnotherMeshOnOneRankIsNamedOnEveryRank) {
  for (std::int64_t odd = 0; odd < 4; ++odd) {
    rank_test(4, [odd](Communicator& world) {
      try {
        const bool other = world.coord() == odd;
        const DataComms comms(world, other ? 4 : 2, other ? 1 : 2);
        ADD_FAILURE() << "made";
      } catch (const ConfigError& e) {
        EXPECT_THAT(e.what(), HasSubstr("SX2-019"));
        EXPECT_THAT(e.what(), HasSubstr("rank 0: mesh"));
        // Rank 0 is compared with all: the first that differs is named.
        EXPECT_THAT(e.what(), HasSubstr("rank " + std::to_string(std::max<std::int64_t>(odd, 1))));
      }
    });
  }
}

}  // namespace
}  // namespace sx
