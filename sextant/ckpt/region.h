#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace sx {

/// The part of a tensor that a rank holds or a file stores: an n-d box, or a range of the row-major
/// element order. Its own elements lie packed, row-major.
struct Region {
  enum class Kind : std::uint8_t { kBox, kFlat };
  Kind kind = Kind::kBox;
  std::vector<std::int64_t> offset;  ///< box: one per dim; flat: the first element
  std::vector<std::int64_t> size;    ///< box: one per dim; flat: the number of elements

  static Region flat(std::int64_t first, std::int64_t count);
  static Region box(std::vector<std::int64_t> offset, std::vector<std::int64_t> size);
  static Region whole(std::span<const std::int64_t> shape);

  /// Product of `size`; of what a manifest holds it is known to fit.
  std::int64_t num_elements() const;
  bool empty() const { return num_elements() == 0; }
  bool is_whole(std::span<const std::int64_t> shape) const;
  friend bool operator==(const Region&, const Region&) = default;
};

/// Product of all extents; 1 for a 0-dim tensor.
std::int64_t num_elements(std::span<const std::int64_t> shape);

/// The global range [first, first + count) of a region whose elements lie in one piece; false for
/// other boxes.
bool as_range(std::span<const std::int64_t> shape, const Region& region,
              std::pair<std::int64_t, std::int64_t>& range);

/// Calls `run(first, local, count)` for each run of a region's elements that lies in one piece in
/// the whole tensor and within its elements [begin, end): `count` elements from global index
/// `first`, the `local`-th and following of the region. By rising `first`.
using RegionRun = std::function<void(std::int64_t first, std::int64_t local, std::int64_t count)>;
void for_each_run(std::span<const std::int64_t> shape, const Region& region, std::int64_t begin,
                  std::int64_t end, const RegionRun& run);
/// All of them.
void for_each_run(std::span<const std::int64_t> shape, const Region& region, const RegionRun& run);

/// What two regions of one tensor have in common, as runs that lie in one piece in both: `run(in_a,
/// in_b, count)` with the places among their own elements. Costs of the order of the runs, not of
/// the elements.
using CommonRun = std::function<void(std::int64_t in_a, std::int64_t in_b, std::int64_t count)>;
void for_each_common_run(std::span<const std::int64_t> shape, const Region& a, const Region& b,
                         const CommonRun& run);

/// The elements [begin, end) of a region's own order as regions, in that order: one range of a
/// range; of a box its rows, and boxes for the rows that are cut.
std::vector<Region> cut_region(const Region& region, std::int64_t begin, std::int64_t end);

}  // namespace sx
