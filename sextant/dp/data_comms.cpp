#include "sextant/dp/data_comms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "sextant/base/check.h"
#include "sextant/dist/plan_check.h"
#include "sextant/mesh/device_mesh.h"

namespace sx {
namespace {

/// Ranks are places in `world`, counted from 0.
GroupPlan plan_of(const Communicator& world, std::int64_t num_replicas, std::int64_t num_shards,
                  bool separate) {
  SX_CHECK(num_replicas >= 1 && num_shards >= 1 && num_replicas * num_shards == world.degree(),
           "{} replicas of {} shards on {} ranks", num_replicas, num_shards, world.degree());
  ParallelDims dims;
  dims.dp_replicate = num_replicas;
  dims.dp_shard = num_shards;
  return {DeviceMesh(dims), DataComms::requests(separate)};
}

StartFacts facts_of(const Communicator& world, const GroupPlan& plan) {
  StartFacts facts;
  facts.add("data ranks", fmt::format("{}", fmt::join(world.global_ranks(), " ")));
  std::istringstream lines(plan.text());
  for (std::string line; std::getline(lines, line);) facts.lines.push_back(line);
  return facts;
}

}  // namespace

std::vector<GroupRequest> DataComms::requests(bool separate) {
  std::vector<GroupRequest> wanted{{Axis::kDpShard, Purpose::kGather}};
  if (separate) wanted.push_back({Axis::kDpShard, Purpose::kReduce});
  wanted.push_back({Axis::kDpReplicate, Purpose::kReplicate});
  wanted.push_back({kDataAxes, Purpose::kReduce});
  return wanted;
}

DataComms::DataComms(Communicator& world, std::int64_t num_replicas, std::int64_t num_shards,
                     bool separate)
    : world_(world),
      num_replicas_(num_replicas),
      num_shards_(num_shards),
      plan_(plan_of(world, num_replicas, num_shards, separate)) {
  check_start_facts(world_, facts_of(world_, plan_));
  gather_ = find_or_make(Axis::kDpShard, Purpose::kGather);
  reduce_ = separate ? find_or_make(Axis::kDpShard, Purpose::kReduce) : gather_;
  replicate_ = find_or_make(Axis::kDpReplicate, Purpose::kReplicate);
  all_ = find_or_make(kDataAxes, Purpose::kReduce);
}

std::shared_ptr<Communicator> DataComms::find_or_make(AxisSet axes, Purpose purpose) {
  const std::optional<std::size_t> place = plan_.index_of(axes, purpose, world_.coord());
  if (!place) {
    return std::make_shared<Communicator>(Communicator::solo(axes, purpose, world_.global_rank()));
  }
  std::shared_ptr<Communicator>& made = made_[*place];
  if (made) return made;
  const PlannedGroup& group = plan_.groups()[*place];
  std::vector<std::int64_t> ranks;
  for (const std::int64_t rank : group.ranks)
    ranks.push_back(world_.global_ranks()[static_cast<std::size_t>(rank)]);
  made = std::make_shared<Communicator>(world_.make_group(ranks, group.axes, purpose));
  return made;
}

Communicator& DataComms::neighbours(std::int64_t ways) {
  const auto found = neighbours_.find(ways);
  if (found != neighbours_.end()) return found->second;
  std::vector<std::int64_t> ranks;
  const std::int64_t first = replica() * num_shards_ + shard() / ways * ways;
  for (std::int64_t i = 0; i < ways; ++i)
    ranks.push_back(world_.global_ranks()[static_cast<std::size_t>(first + i)]);
  return neighbours_.emplace(ways, world_.make_group(ranks, Axis::kDpShard, Purpose::kGather))
      .first->second;
}

}  // namespace sx
