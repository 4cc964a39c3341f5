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

}  // namespace

DeviceMesh::DeviceMesh(const ParallelDims& dims, const RankOrder& order, std::int64_t rank_offset)
    : dims_(dims), order_(order), offset_(rank_offset) {
  const std::vector<Diagnostic> faults = dims.faults();
  SX_CHECK(faults.empty(), "no mesh: {}", faults.front().what);
  SX_CHECK(rank_offset >= 0, "rank offset {}", rank_offset);
  SX_CHECK(same_pipelines(order, dims), "the two views of {} have different pipelines",
           order.to_string());
  std::int64_t dense = 1;
  for (std::size_t i = order.dense.size(); i-- > 0;) {
    strides_[static_cast<std::size_t>(order.dense[i])] = dense;
    dense *= dims.degree(order.dense[i]);
  }
  std::int64_t expert = 1;
  for (std::size_t i = order.expert.size(); i-- > 0;) {
    const Axis axis = order.expert[i];
    if (axis == Axis::kDpReplicate) {
      expert_replicate_stride_ = expert;
    } else if (axis != Axis::kPp) {
      strides_[static_cast<std::size_t>(axis)] = expert;
    }
    expert *= dims.degree(axis);
  }
  SX_CHECK(dense == world_size() && expert == dense, "an axis is missing in the rank order {}",
           order.to_string());
}

std::vector<Mode> DeviceMesh::modes(AxisSet axes) const {
  const bool expert = meets(axes, kExpertOnly);
  SX_CHECK(!expert || !meets(axes, kDenseOnly), "no view has all of {}", axes.to_string());
  std::vector<Mode> found;
  for (const Axis axis : expert ? order_.expert : order_.dense) {
    if (!axes.contains(axis)) continue;
    const bool other = expert && axis == Axis::kDpReplicate;
    found.push_back({dims_.degree(axis), other ? expert_replicate_stride_ : stride(axis)});
  }
  return found;
}

std::int64_t DeviceMesh::degree(AxisSet axes) const {
  std::int64_t product = 1;
  for (const Mode& mode : modes(axes)) product *= mode.size;
  return product;
}

Layout DeviceMesh::layout(Axis axis) const { return {{dims_.degree(axis), stride(axis)}}; }

Layout DeviceMesh::layout(AxisSet axes) const {
  Layout result;
  for (const Mode& mode : modes(axes)) result.push(mode);
  return result.coalesce();
}

Coords DeviceMesh::coords(std::int64_t rank) const {
  SX_CHECK(has_rank(rank), "rank {} is not among {} .. {}", rank, offset_,
           offset_ + world_size() - 1);
  Coords result;
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    result[axis] = (rank - offset_) / stride(axis) % dims_.degree(axis);
  }
  return result;
}

std::int64_t DeviceMesh::coord(std::int64_t rank, AxisSet axes) const {
  SX_CHECK(has_rank(rank), "rank {} is not among {} .. {}", rank, offset_,
           offset_ + world_size() - 1);
  std::int64_t place = 0;
  for (const Mode& mode : modes(axes))
    place = place * mode.size + (rank - offset_) / mode.stride % mode.size;
  return place;
}

std::int64_t DeviceMesh::rank(const Coords& coords) const {
  std::int64_t result = offset_;
  for (const Axis axis : order_.dense) {
    SX_CHECK(coords[axis] >= 0 && coords[axis] < dims_.degree(axis), "coordinate {} on {} of {}",
             coords[axis], sx::to_string(axis), dims_.degree(axis));
    result += coords[axis] * stride(axis);
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
  // The expert view may cut pipelines elsewhere when dp_shard shrinks under an unusual order.
  if (!same_pipelines(order_, dims)) return std::nullopt;

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
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (a.dims_.degree(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return a.dims_.dp_replicate == 1 || a.expert_replicate_stride_ == b.expert_replicate_stride_;
}

}  // namespace sx
