#include "sextant/mesh/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr AxisSet kExpertOnly = AxisSet(Axis::kEdp) | Axis::kEp | Axis::kEtp;
constexpr AxisSet kDenseOnly = AxisSet(Axis::kDpShard) | Axis::kCp | Axis::kTp;

bool meets(AxisSet a, AxisSet b) {
  for (int i = 0; i < kNumAxes; ++i) {
    if (a.contains(static_cast<Axis>(i)) && b.contains(static_cast<Axis>(i))) return true;
  }
  return false;
}

/// The index whose digits `offset` has on the layout's modes.
std::int64_t place_on(const Layout& layout, std::int64_t offset) {
  std::int64_t place = 0;
  for (const Mode& mode : layout.modes())
    place = place * mode.size + offset / mode.stride % mode.size;
  return place;
}

}  // namespace

DeviceMesh::DeviceMesh(const ParallelDims& dims, const RankOrder& order, std::int64_t rank_offset)
    : dims_(dims), order_(order), offset_(rank_offset) {
  const std::vector<Diagnostic> faults = dims.faults();
  SX_CHECK(faults.empty(), "no mesh: {}", faults.front().what);
  SX_CHECK(rank_offset >= 0, "rank offset {}", rank_offset);
  const std::optional<AxisLayouts> layouts = axis_layouts(order, dims);
  SX_CHECK(layouts.has_value(), "the two views of {} have different pipelines", order.to_string());
  layouts_ = *layouts;
}

Layout DeviceMesh::flatten(AxisSet axes) const {
  const bool expert = meets(axes, kExpertOnly);
  SX_CHECK(!expert || !meets(axes, kDenseOnly), "no view has all of {}", axes.to_string());
  Layout flat;
  for (const Axis axis : expert ? order_.expert : order_.dense) {
    if (!axes.contains(axis)) continue;
    const bool other = expert && axis == Axis::kDpReplicate;
    flat = flat.then(other ? layouts_.expert_replicate : axis_layout(axis));
  }
  return flat.coalesce();
}

std::int64_t DeviceMesh::degree(AxisSet axes) const { return flatten(axes).size(); }

Coords DeviceMesh::coords(std::int64_t rank) const {
  SX_CHECK(has_rank(rank), "rank {} is not among {} .. {}", rank, offset_,
           offset_ + world_size() - 1);
  Coords result;
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    result[axis] = place_on(axis_layout(axis), rank - offset_);
  }
  return result;
}

std::int64_t DeviceMesh::coord(std::int64_t rank, AxisSet axes) const {
  SX_CHECK(has_rank(rank), "rank {} is not among {} .. {}", rank, offset_,
           offset_ + world_size() - 1);
  return place_on(layout(axes), rank - offset_);
}

std::int64_t DeviceMesh::rank(const Coords& coords) const {
  std::int64_t result = offset_;
  for (const Axis axis : order_.dense) {
    SX_CHECK(coords[axis] >= 0 && coords[axis] < dims_.degree(axis), "coordinate {} on {} of {}",
             coords[axis], sx::to_string(axis), dims_.degree(axis));
    result += axis_layout(axis)(coords[axis]);
  }
  return result;
}

std::vector<std::int64_t> DeviceMesh::ranks_along(AxisSet axes, std::int64_t rank) const {
  const Layout along = layout(axes);
  std::vector<std::int64_t> ranks = along.offsets();
  const std::int64_t first = rank - along(coord(rank, axes));
  for (std::int64_t& member : ranks) member += first;
  return ranks;
}

std::vector<std::vector<std::int64_t>> DeviceMesh::all_groups(AxisSet axes) const {
  std::vector<std::vector<std::int64_t>> groups;
  for (const std::int64_t first : layout(axes).complement(world_size()).offsets())
    groups.push_back(ranks_along(axes, offset_ + first));
  return groups;
}

std::optional<ShrunkMesh> DeviceMesh::without(const std::vector<std::int64_t>& lost) const {
  std::set<std::pair<std::int64_t, std::int64_t>> broken;
  for (const std::int64_t rank : lost) {
    const Coords at = coords(rank);
    broken.emplace(at[Axis::kDpReplicate], at[Axis::kDpShard]);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> whole;
  for (std::int64_t r = 0; r < dims_.dp_replicate; ++r) {
    for (std::int64_t s = 0; s < dims_.dp_shard; ++s) {
      if (!broken.contains({r, s})) whole.emplace_back(r, s);
    }
  }
  ParallelDims dims = dims_;
  const auto blocks = static_cast<std::int64_t>(whole.size());
  if (blocks >= dims.dp_shard) {
    dims.dp_replicate = blocks / dims.dp_shard;
  } else {
    dims.dp_replicate = 1;
    dims.dp_shard = blocks;
    while (dims.dp_shard > 0 && !dims.faults().empty()) --dims.dp_shard;
  }
  if (dims.dp_shard == 0) return std::nullopt;
  // Under an unusual order the expert view may cut pipelines elsewhere when dp_shard shrinks.
  if (!axis_layouts(order_, dims)) return std::nullopt;

  ShrunkMesh result{.mesh = DeviceMesh(dims, order_), .old_ranks = {}};
  std::set<std::int64_t> used;
  for (std::int64_t rank = 0; rank < result.mesh.world_size(); ++rank) {
    Coords at = result.mesh.coords(rank);
    const std::int64_t block = at[Axis::kDpReplicate] * dims.dp_shard + at[Axis::kDpShard];
    std::tie(at[Axis::kDpReplicate], at[Axis::kDpShard]) = whole[static_cast<std::size_t>(block)];
    result.old_ranks.push_back(this->rank(at));
    used.insert(result.old_ranks.back());
  }
  const std::set<std::int64_t> gone(lost.begin(), lost.end());
  for (std::int64_t rank = offset_; rank < offset_ + world_size(); ++rank) {
    if (!used.contains(rank) && !gone.contains(rank)) result.spare_ranks.push_back(rank);
  }
  return result;
}

std::string DeviceMesh::to_string() const {
  return fmt::format("{} order {}{}", dims_.to_string(), order_.to_string(),
                     offset_ == 0 ? "" : fmt::format(" from rank {}", offset_));
}

bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
  if (a.dims_ != b.dims_ || a.offset_ != b.offset_) return false;
  return a.layouts_.axes == b.layouts_.axes &&
         a.layouts_.expert_replicate == b.layouts_.expert_replicate;
}

}  // namespace sx
