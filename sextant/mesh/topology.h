#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/base/units.h"
#include "sextant/mesh/device_mesh.h"

namespace sx {

/// Where a rank's device sits: the machine, the group of devices with the fastest links between
/// them (an NVLink island, a socket), and the network card it uses.
struct RankPlace {
  std::int64_t node = 0;
  std::int64_t island = 0;  ///< counted over all nodes
  std::int64_t rail = 0;
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// The slowest link that a group of ranks has to use.
enum class LinkClass : std::uint8_t { kIsland, kNode, kNetwork };
inline constexpr int kNumLinkClasses = 3;
const char* to_string(LinkClass link);  ///< "island", "node", "network"

struct Link {
  Bytes per_second;  ///< one direction, of one device
  Seconds latency;
  friend bool operator==(const Link&, const Link&) = default;
};

/// Which links an axis of the mesh runs over, for reports, warnings and the planner.
class Topology {
 public:
  using Links = std::array<Link, kNumLinkClasses>;
  /// Nominal figures: NVLink of an H100 (450 GB/s a direction), PCIe 5 x16 (63 GB/s), one 400
  /// Gbit/s card (50 GB/s); latencies in the order of what collectives over them show.
  static Links nominal_links();

  /// `places` by rank, counted from 0. Errors: ContractError when an island spans nodes.
  explicit Topology(std::vector<RankPlace> places, Links links = nominal_links());
  /// Ranks in order on nodes and islands of equal size; a rank's rail is its place on the node.
  static Topology uniform(std::int64_t ranks, std::int64_t ranks_per_node,
                          std::int64_t ranks_per_island, Links links = nominal_links());

  std::int64_t num_ranks() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t num_nodes() const;
  const RankPlace& place(std::int64_t rank) const;
  const Link& link(LinkClass link) const { return links_[static_cast<std::size_t>(link)]; }

  /// The slowest link inside a group.
  LinkClass link_class(const std::vector<std::int64_t>& ranks) const;
  /// The slowest over all groups along these axes.
  LinkClass link_class(const DeviceMesh& mesh, AxisSet axes) const;
  /// Whether the ranks of each group along these axes share a rail: their traffic then meets in one
  /// switch only.
  bool one_rail(const DeviceMesh& mesh, AxisSet axes) const;

  /// Axes on links too slow for their traffic: SX2-029, a warning, for tp (or etp) that leaves its
  /// island, with the ratio of the links' bandwidths.
  std::vector<Diagnostic> warnings(const DeviceMesh& mesh) const;

 private:
  std::vector<RankPlace> places_;
  Links links_;
};

}  // namespace sx
