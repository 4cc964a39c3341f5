#include "sextant/dp/data_comms.h"

#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

Communicator group(Communicator& world, std::int64_t first, std::int64_t count, std::int64_t stride,
                   AxisSet axis, Purpose purpose) {
  if (count == 1) return Communicator::solo(axis, purpose, world.global_rank());
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < count; ++i) {
    ranks.push_back(world.global_ranks()[static_cast<std::size_t>(first + i * stride)]);
  }
  return world.make_group(ranks, axis, purpose);
}

}  // namespace

DataComms::DataComms(Communicator& world, std::int64_t num_replicas, std::int64_t num_shards,
                     bool separate)
    : world_(world),
      num_replicas_(num_replicas),
      num_shards_(num_shards),
      separate_(separate),
      gather_(
          group(world, replica() * num_shards, num_shards, 1, Axis::kDpShard, Purpose::kGather)),
      reduce_(separate ? group(world, replica() * num_shards, num_shards, 1, Axis::kDpShard,
                               Purpose::kReduce)
                       : Communicator::solo()),
      replicate_(
          group(world, shard(), num_replicas, num_shards, Axis::kDpReplicate, Purpose::kReplicate)),
      all_(group(world, 0, world.degree(), 1, AxisSet(Axis::kDpReplicate) | Axis::kDpShard,
                 Purpose::kReduce)) {
  SX_CHECK(num_replicas * num_shards == world.degree(), "{} replicas of {} shards on {} ranks",
           num_replicas, num_shards, world.degree());
}

Communicator& DataComms::neighbours(std::int64_t ways) {
  const auto found = neighbours_.find(ways);
  if (found != neighbours_.end()) return found->second;
  const std::int64_t first = replica() * num_shards_ + shard() / ways * ways;
  return neighbours_.emplace(ways, group(world_, first, ways, 1, Axis::kDpShard, Purpose::kGather))
      .first->second;
}

}  // namespace sx
