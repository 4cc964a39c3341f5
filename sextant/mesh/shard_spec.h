#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sextant/mesh/axis.h"
#include "sextant/mesh/device_mesh.h"
#include "sextant/mesh/placement.h"

namespace sx {

/// A half-open range of rows.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};
/// The rows of coordinate `coord` when `rows` are cut over `degree` (chunk rule of Shard).
RowRange chunk_range(std::int64_t rows, std::int64_t degree, std::int64_t coord);

/// An n-dimensional part of a tensor.
struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;

  std::int64_t num_elements() const;  ///< 1 for a 0-dim tensor
  bool empty() const { return num_elements() == 0; }
  friend bool operator==(const Box&, const Box&) = default;
};

/// Placement on one axis, or on several taken as one (dp_shard x cp).
struct AxisPlacement {
  AxisSet axes;
  Placement placement;
  friend bool operator==(const AxisPlacement&, const AxisPlacement&) = default;
};

/// Where the elements of one tensor lie on a mesh: which box of it a rank has.
///
/// Placements are listed in the order in which they were applied, each cutting what the ones before
/// left: tensor parallelism first, then sharding over data ranks, even though that axis is slower.
/// So no placement needs to know of another's stride. Axes that are not listed are Replicate.
///
/// Flat ranges of unit buffers are no placements; see sextant/shard/unit_layout.h.
///
/// Errors: ContractError for a dim the tensor lacks, an axis listed twice, a 0-dim tensor that is
///         cut.
class ShardSpec {
 public:
  ShardSpec() = default;
  /// `dtype` names the element type as safetensors does ("F32", "BF16"); empty when it does not
  /// matter.
  ShardSpec(std::vector<std::int64_t> global_shape, std::string dtype,
            std::vector<AxisPlacement> placements);

  const std::vector<std::int64_t>& global_shape() const { return global_shape_; }
  const std::string& dtype() const { return dtype_; }
  const std::vector<AxisPlacement>& placements() const { return placements_; }
  std::int64_t num_elements() const;  ///< of the whole tensor

  /// Adds one more cut behind the others.
  ShardSpec then(AxisSet axes, Placement placement) const;

  /// The part of `rank`; boxes of all coordinates of the Shard axes tile the tensor.
  Box local_box(const DeviceMesh& mesh, std::int64_t rank) const;
  std::vector<std::int64_t> local_shape(const DeviceMesh& mesh, std::int64_t rank) const {
    return local_box(mesh, rank).size;
  }
  std::vector<std::int64_t> offset(const DeviceMesh& mesh, std::int64_t rank) const {
    return local_box(mesh, rank).offset;
  }
  /// The same from degrees and coordinates, one of each per placement.
  Box local_box(std::span<const std::int64_t> degrees, std::span<const std::int64_t> coords) const;

  /// True when a reduction over the mesh is still due.
  bool has_partial() const;

  /// "[5,3] F32 tp:shard(0) dp_shard:shard(0)".
  std::string to_string() const;
  friend bool operator==(const ShardSpec&, const ShardSpec&) = default;

 private:
  std::vector<std::int64_t> global_shape_;
  std::string dtype_;
  std::vector<AxisPlacement> placements_;
};

}  // namespace sx
