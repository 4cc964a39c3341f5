#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/mesh/axis.h"
#include "sextant/mesh/device_mesh.h"
#include "sextant/mesh/purpose.h"

namespace sx {

/// "Somebody wants to talk along these axes, for this purpose."
struct GroupRequest {
  AxisSet axes;
  Purpose purpose = Purpose::kControl;
  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

/// One communicator to be made.
struct PlannedGroup {
  std::vector<std::int64_t> ranks;  ///< ascending
  AxisSet axes;                     ///< of the first request that asked for these ranks
  Purpose purpose = Purpose::kControl;
  std::vector<AxisSet> also;  ///< axes of later requests that mean the same ranks

  bool has(std::int64_t rank) const;
};

/// The communicators a run needs, in the order in which they are made: found from the mesh without
/// communication, so every rank has the same list, and its hash is compared before the first
/// collective.
///
/// Groups of one rank are left out; two requests with the same ranks and purpose share a group (a
/// group of all ranks is the world's group of that purpose).
class GroupPlan {
 public:
  /// Requests in order; a repeated request changes nothing.
  GroupPlan(const DeviceMesh& mesh, std::span<const GroupRequest> requests);

  const DeviceMesh& mesh() const { return mesh_; }
  const std::vector<PlannedGroup>& groups() const { return groups_; }
  /// Groups before equal ones were joined: one for each row of each request, degree 1 left out.
  std::int64_t num_named() const { return num_named_; }
  /// Number of communicators `rank` is a member of.
  std::int64_t num_of(std::int64_t rank) const;

  /// Index in groups() of the group of `rank` along `axes`; empty when its degree is 1. Errors:
  /// ContractError for a request that the plan was not made from.
  std::optional<std::size_t> index_of(AxisSet axes, Purpose purpose, std::int64_t rank) const;

  /// One line per fact: `header` (versions, recipe fingerprint), the mesh, then the groups. Equal
  /// text on all ranks means equal plans.
  std::string text(std::span<const std::string> header = {}) const;
  /// XXH64 of text(header).
  std::uint64_t hash(std::span<const std::string> header = {}) const;

 private:
  DeviceMesh mesh_;
  std::vector<GroupRequest> requests_;
  std::vector<PlannedGroup> groups_;
  /// By request, then by rank - rank_offset: index into groups_, or -1.
  std::vector<std::vector<std::int64_t>> index_;
  std::int64_t num_named_ = 0;
};

struct PlanDifference {
  std::int64_t line = 0;  ///< counted from 1
  std::string ours;       ///< empty: ours has ended
  std::string theirs;     ///< empty: theirs has ended
};
/// The first line in which two plans' texts differ.
std::optional<PlanDifference> first_difference(std::string_view ours, std::string_view theirs);

}  // namespace sx
