#include "sextant/mesh/shard_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {

std::string to_string(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement))
    return fmt::format("shard({})", shard->dim);
  if (const auto* partial = std::get_if<Partial>(&placement)) {
    switch (partial->op) {
      case PartialOp::kSum: return "partial(sum)";
      case PartialOp::kMax: return "partial(max)";
      case PartialOp::kMin: return "partial(min)";
    }
  }
  return "replicate";
}

RowRange chunk_range(std::int64_t rows, std::int64_t degree, std::int64_t coord) {
  SX_CHECK(rows >= 0 && degree >= 1 && coord >= 0 && coord < degree, "{} rows, coordinate {} of {}",
           rows, coord, degree);
  const std::int64_t chunk = (rows + degree - 1) / degree;
  return {std::min(rows, coord * chunk), std::min(rows, (coord + 1) * chunk)};
}

std::int64_t Box::num_elements() const {
  std::int64_t product = 1;
  for (const std::int64_t rows : size) product *= rows;
  return product;
}

ShardSpec::ShardSpec(std::vector<std::int64_t> global_shape, std::string dtype,
                     std::vector<AxisPlacement> placements)
    : global_shape_(std::move(global_shape)), dtype_(std::move(dtype)) {
  for (const std::int64_t rows : global_shape_) SX_CHECK(rows >= 0, "a dim of {} rows", rows);
  for (AxisPlacement& next : placements) *this = then(next.axes, next.placement);
}

ShardSpec ShardSpec::then(AxisSet axes, Placement placement) const {
  for (const AxisPlacement& before : placements_) {
    for (int i = 0; i < kNumAxes; ++i) {
      const auto axis = static_cast<Axis>(i);
      SX_CHECK(!before.axes.contains(axis) || !axes.contains(axis), "{} is placed twice",
               sx::to_string(axis));
    }
  }
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    SX_CHECK(shard->dim >= 0 && shard->dim < static_cast<int>(global_shape_.size()),
             "dim {} of a tensor with {} dims", shard->dim, global_shape_.size());
  }
  SX_CHECK(!global_shape_.empty() || std::holds_alternative<Replicate>(placement),
           "a 0-dim tensor is replicated on every axis, not {}", sx::to_string(placement));
  ShardSpec result = *this;
  result.placements_.push_back({axes, placement});
  return result;
}

std::int64_t ShardSpec::num_elements() const { return Box{{}, global_shape_}.num_elements(); }

Box ShardSpec::local_box(std::span<const std::int64_t> degrees,
                         std::span<const std::int64_t> coords) const {
  SX_CHECK(degrees.size() == placements_.size() && coords.size() == placements_.size(),
           "{} degrees and {} coordinates for {} placements", degrees.size(), coords.size(),
           placements_.size());
  Box box{std::vector<std::int64_t>(global_shape_.size(), 0), global_shape_};
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    const auto* shard = std::get_if<Shard>(&placements_[i].placement);
    if (shard == nullptr) continue;
    const auto dim = static_cast<std::size_t>(shard->dim);
    const RowRange rows = chunk_range(box.size[dim], degrees[i], coords[i]);
    box.offset[dim] += rows.begin;
    box.size[dim] = rows.size();
  }
  return box;
}

Box ShardSpec::local_box(const DeviceMesh& mesh, std::int64_t rank) const {
  std::vector<std::int64_t> degrees, coords;
  for (const AxisPlacement& placed : placements_) {
    degrees.push_back(mesh.degree(placed.axes));
    coords.push_back(mesh.coord(rank, placed.axes));
  }
  return local_box(degrees, coords);
}

bool ShardSpec::has_partial() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const AxisPlacement& placed) {
    return std::holds_alternative<Partial>(placed.placement);
  });
}

std::string ShardSpec::to_string() const {
  std::string text = fmt::format("[{}]", fmt::join(global_shape_, ","));
  if (!dtype_.empty()) text += " " + dtype_;
  for (const AxisPlacement& placed : placements_)
    text += fmt::format(" {}:{}", placed.axes.to_string(), sx::to_string(placed.placement));
  return text;
}

}  // namespace sx
