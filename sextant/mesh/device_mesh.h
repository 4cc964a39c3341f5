#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sextant/mesh/axis.h"
#include "sextant/mesh/layout.h"
#include "sextant/mesh/parallel_dims.h"
#include "sextant/mesh/rank_order.h"

namespace sx {

/// Axes over which a dense parameter is sharded.
inline constexpr AxisSet kFsdpAxes = AxisSet(Axis::kDpShard) | Axis::kCp;
/// Axes over which tokens differ.
inline constexpr AxisSet kLossAxes = AxisSet(Axis::kDpReplicate) | Axis::kDpShard | Axis::kCp;
/// Axes over which samples differ.
inline constexpr AxisSet kDataAxes = AxisSet(Axis::kDpReplicate) | Axis::kDpShard;

/// A place on the mesh: the coordinate on each axis, by `static_cast<int>(axis)`.
struct Coords {
  std::array<std::int64_t, kNumAxes> at{};
  std::int64_t operator[](Axis axis) const { return at[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](Axis axis) { return at[static_cast<std::size_t>(axis)]; }
  friend bool operator==(const Coords&, const Coords&) = default;
};

struct ShrunkMesh;

/// The bijection between ranks and coordinates: pure arithmetic, the same on every rank.
///
/// One span of ranks is seen in two ways: dense [pp, dp_replicate, dp_shard, cp, tp] and expert
/// [pp, dp_replicate, edp, ep, etp], last fastest (or as `order` says). A set of axes that names
/// edp, ep or etp is taken in the expert view, any other in the dense one; pp is the same in both.
///
/// Ranks are global: rank_offset .. rank_offset + world_size - 1.
/// Errors: ContractError for degrees with faults, ranks outside, axes that no one view has.
/// Threads: immutable.
class DeviceMesh {
 public:
  explicit DeviceMesh(const ParallelDims& dims, const RankOrder& order = {},
                      std::int64_t rank_offset = 0);

  const ParallelDims& dims() const { return dims_; }
  const RankOrder& order() const { return order_; }
  std::int64_t rank_offset() const { return offset_; }
  std::int64_t world_size() const { return dims_.world_size(); }
  bool has_rank(std::int64_t rank) const {
    return rank >= offset_ && rank < offset_ + world_size();
  }

  /// Ranks in a group along these axes.
  std::int64_t degree(AxisSet axes) const;
  /// Coordinates on all eight axes.
  Coords coords(std::int64_t rank) const;
  std::int64_t coord(std::int64_t rank, Axis axis) const { return coords(rank)[axis]; }
  /// Place of `rank` in ranks_along(axes, rank).
  std::int64_t coord(std::int64_t rank, AxisSet axes) const;
  /// The rank at these coordinates of the dense axes.
  std::int64_t rank(const Coords& coords) const;

  /// The ranks that differ from `rank` on these axes only, `rank` included, ascending: the order in
  /// which reductions fold. Over all ranks these groups partition the world.
  std::vector<std::int64_t> ranks_along(AxisSet axes, std::int64_t rank) const;
  /// All groups along these axes, by first rank.
  std::vector<std::vector<std::int64_t>> all_groups(AxisSet axes) const;

  /// Offsets (from rank_offset) along these axes, rising.
  Layout layout(AxisSet axes) const { return flatten(axes).sorted(); }

  /// What is left when ranks are lost, for a restart. A block is the pp * cp * tp ranks that hold
  /// one (dp_replicate, dp_shard) pair; blocks that lost a rank are given up. dp_shard stays while
  /// there are enough blocks (each rank then holds as much as before) and dp_replicate shrinks;
  /// below that one replica is kept with the largest dp_shard that ep * etp allows. Empty when
  /// nothing can run.
  std::optional<ShrunkMesh> without(const std::vector<std::int64_t>& lost) const;

  /// One line: degrees, order, offset.
  std::string to_string() const;

  /// By structure: two meshes are equal when every rank has the same place in both.
  friend bool operator==(const DeviceMesh& a, const DeviceMesh& b);

 private:
  const Layout& axis_layout(Axis axis) const {
    return layouts_.axes[static_cast<std::size_t>(axis)];
  }
  /// The axes of the set, slowest first. dp_replicate's layout depends on the view.
  Layout flatten(AxisSet axes) const;

  ParallelDims dims_;
  RankOrder order_;
  std::int64_t offset_ = 0;
  AxisLayouts layouts_;
};

struct ShrunkMesh {
  DeviceMesh mesh;                          ///< ranks counted from 0
  std::vector<std::int64_t> old_ranks;      ///< by new rank: the rank it was
  std::vector<std::int64_t> spare_ranks{};  ///< alive, but without a place
};

}  // namespace sx
