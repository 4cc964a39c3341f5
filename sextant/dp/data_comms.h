#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/mesh/group_plan.h"

namespace sx {

/// The communicators of the data ranks, a mesh of R replicas times W shards. Rank (r, w) is the
/// (r * W + w)-th of `world`; the shard axis is the fast one.
///
/// Gathers and reductions have communicators of their own, so that one of either can be in flight.
/// Each set of ranks and purpose has one communicator, whatever asks for it.
/// Must outlive the engine that uses it; belongs to its rank's thread.
class DataComms {
 public:
  /// Collective over `world`, whose ranks are all data ranks: R * W of them. `separate`: as
  /// Policy::separate_comms. The ranks compare their plans before the first group is made.
  /// Errors: ConfigError SX2-019 on every rank when they differ in mesh or groups.
  DataComms(Communicator& world, std::int64_t num_replicas, std::int64_t num_shards,
            bool separate = true);
  DataComms(const DataComms&) = delete;
  DataComms& operator=(const DataComms&) = delete;

  /// What the engine talks about, in the order in which its groups are made.
  static std::vector<GroupRequest> requests(bool separate);

  const GroupPlan& plan() const { return plan_; }
  std::int64_t num_replicas() const { return num_replicas_; }  ///< R
  std::int64_t num_shards() const { return num_shards_; }      ///< W
  std::int64_t replica() const { return world_.coord() / num_shards_; }
  std::int64_t shard() const { return world_.coord() % num_shards_; }

  Communicator& world() { return world_; }
  Communicator& gather() { return *gather_; }        ///< over W
  Communicator& reduce() { return *reduce_; }        ///< over W
  Communicator& replicate() { return *replicate_; }  ///< over R
  Communicator& all() { return *all_; }              ///< over R * W, reductions
  /// Over `ways` neighbours on the shard axis; made at the first call, which is collective over
  /// `world`.
  Communicator& neighbours(std::int64_t ways);

 private:
  std::shared_ptr<Communicator> find_or_make(AxisSet axes, Purpose purpose);

  Communicator& world_;
  std::int64_t num_replicas_, num_shards_;
  GroupPlan plan_;
  std::map<std::size_t, std::shared_ptr<Communicator>> made_;  ///< by place in the plan
  std::shared_ptr<Communicator> gather_, reduce_, replicate_, all_;
  std::map<std::int64_t, Communicator> neighbours_;
};

}  // namespace sx
