// Integer geometry of parts of tensors. No tensor, no file.
#include "sextant/ckpt/region.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace sx {
namespace {

using Sizes = std::span<const std::int64_t>;

/// A box as rows that lie in one piece in the whole tensor.
struct Rows {
  std::size_t outer = 0;              ///< dims before it are counted through
  std::int64_t length = 1;            ///< elements of a row
  std::int64_t count = 1;             ///< rows
  std::vector<std::int64_t> strides;  ///< of the whole tensor, in elements
};

Rows rows_of(Sizes shape, const Region& box) {
  Rows rows;
  rows.strides.assign(shape.size(), 1);
  for (std::size_t dim = shape.size(); dim-- > 1;)
    rows.strides[dim - 1] = rows.strides[dim] * shape[dim];
  rows.outer = shape.size();
  while (rows.outer > 0) {
    const std::size_t dim = rows.outer - 1;
    rows.length *= box.size[dim];
    --rows.outer;
    if (box.size[dim] != shape[dim]) break;
  }
  for (std::size_t dim = 0; dim < rows.outer; ++dim) rows.count *= box.size[dim];
  return rows;
}

std::int64_t first_of_row(const Region& box, const Rows& rows, std::int64_t row) {
  std::int64_t first = 0;
  for (std::size_t dim = box.size.size(); dim-- > 0;) {
    std::int64_t index = box.offset[dim];
    if (dim < rows.outer) {
      index += row % box.size[dim];
      row /= box.size[dim];
    }
    first += index * rows.strides[dim];
  }
  return first;
}

void runs_of_box(Sizes shape, const Region& box, std::int64_t begin, std::int64_t end,
                 const RegionRun& run) {
  const Rows rows = rows_of(shape, box);
  // The first row that ends behind `begin`.
  std::int64_t low = 0, high = rows.count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first_of_row(box, rows, middle) + rows.length <= begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (std::int64_t row = low; row < rows.count; ++row) {
    const std::int64_t first = first_of_row(box, rows, row);
    if (first >= end) return;
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(first + rows.length, end);
    if (from < to) run(from, row * rows.length + (from - first), to - from);
  }
}

void common_of_boxes(const Region& a, const Region& b, const CommonRun& run) {
  const std::size_t dims = a.size.size();
  Region both = a;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const std::int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const std::int64_t end = std::min(a.offset[dim] + a.size[dim], b.offset[dim] + b.size[dim]);
    if (begin >= end) return;
    both.offset[dim] = begin;
    both.size[dim] = end - begin;
  }
  std::vector<std::int64_t> stride_a(dims, 1), stride_b(dims, 1);
  for (std::size_t dim = dims; dim-- > 1;) {
    stride_a[dim - 1] = stride_a[dim] * a.size[dim];
    stride_b[dim - 1] = stride_b[dim] * b.size[dim];
  }
  std::size_t outer = dims;
  std::int64_t length = 1;
  while (outer > 0) {
    const std::size_t dim = outer - 1;
    length *= both.size[dim];
    --outer;
    if (both.size[dim] != a.size[dim] || both.size[dim] != b.size[dim]) break;
  }
  std::int64_t start_a = 0, start_b = 0;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    start_a += (both.offset[dim] - a.offset[dim]) * stride_a[dim];
    start_b += (both.offset[dim] - b.offset[dim]) * stride_b[dim];
  }
  std::vector<std::int64_t> index(outer, 0);
  for (;;) {
    std::int64_t at_a = start_a, at_b = start_b;
    for (std::size_t dim = 0; dim < outer; ++dim) {
      at_a += index[dim] * stride_a[dim];
      at_b += index[dim] * stride_b[dim];
    }
    run(at_a, at_b, length);
    std::size_t dim = outer;
    while (dim > 0 && ++index[dim - 1] == both.size[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

/// Appends the elements [begin, end) of the box that spans `size[dim..]` at `at`.
void cut_box(const Region& box, std::size_t dim, const Region& at, std::int64_t begin,
             std::int64_t end, std::vector<Region>& out) {
  if (begin >= end) return;
  if (dim == box.size.size()) {
    out.push_back(at);
    return;
  }
  std::int64_t row = 1;
  for (std::size_t d = dim + 1; d < box.size.size(); ++d) row *= box.size[d];
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    Region part = at;
    part.offset[dim] = box.offset[dim] + first;
    part.size[dim] = count;
    return part;
  };
  const std::int64_t first = begin / row;
  const std::int64_t last = end / row;
  if (first == last) {
    cut_box(box, dim + 1, rows(first, 1), begin - first * row, end - first * row, out);
    return;
  }
  std::int64_t whole = first;
  if (begin != first * row) {
    cut_box(box, dim + 1, rows(first, 1), begin - first * row, row, out);
    ++whole;
  }
  if (whole < last) out.push_back(rows(whole, last - whole));
  if (end != last * row) cut_box(box, dim + 1, rows(last, 1), 0, end - last * row, out);
}

}  // namespace

Region Region::flat(std::int64_t first, std::int64_t count) {
  return {Kind::kFlat, {first}, {count}};
}

Region Region::box(std::vector<std::int64_t> offset, std::vector<std::int64_t> size) {
  return {Kind::kBox, std::move(offset), std::move(size)};
}

Region Region::whole(std::span<const std::int64_t> shape) {
  return {Kind::kBox, std::vector<std::int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
}

std::int64_t Region::num_elements() const { return sx::num_elements(size); }

bool Region::is_whole(std::span<const std::int64_t> shape) const {
  if (kind == Kind::kFlat) return offset[0] == 0 && size[0] == sx::num_elements(shape);
  return std::equal(size.begin(), size.end(), shape.begin(), shape.end());
}

std::int64_t num_elements(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

bool as_range(std::span<const std::int64_t> shape, const Region& region,
              std::pair<std::int64_t, std::int64_t>& range) {
  if (region.kind == Region::Kind::kFlat) {
    range = {region.offset[0], region.size[0]};
    return true;
  }
  // Dims behind the first one that is cut must be whole, dims before it of size 1.
  std::size_t cut = 0;
  while (cut < region.size.size() && region.size[cut] == 1) ++cut;
  for (std::size_t dim = cut + 1; dim < region.size.size(); ++dim) {
    if (region.size[dim] != shape[dim]) return false;
  }
  std::int64_t first = 0;
  for (std::size_t dim = 0; dim < region.size.size(); ++dim)
    first = first * shape[dim] + region.offset[dim];
  range = {first, region.num_elements()};
  return true;
}

void for_each_run(std::span<const std::int64_t> shape, const Region& region, std::int64_t begin,
                  std::int64_t end, const RegionRun& run) {
  if (region.empty()) return;
  std::pair<std::int64_t, std::int64_t> range;
  if (!as_range(shape, region, range)) return runs_of_box(shape, region, begin, end, run);
  const std::int64_t from = std::max(range.first, begin);
  const std::int64_t to = std::min(range.first + range.second, end);
  if (from < to) run(from, from - range.first, to - from);
}

void for_each_run(std::span<const std::int64_t> shape, const Region& region, const RegionRun& run) {
  for_each_run(shape, region, 0, num_elements(shape), run);
}

void for_each_common_run(std::span<const std::int64_t> shape, const Region& a, const Region& b,
                         const CommonRun& run) {
  if (a.empty() || b.empty()) return;
  std::pair<std::int64_t, std::int64_t> range;
  if (as_range(shape, a, range)) {
    for_each_run(shape, b, range.first, range.first + range.second,
                 [&](std::int64_t first, std::int64_t local, std::int64_t count) {
                   run(first - range.first, local, count);
                 });
  } else if (as_range(shape, b, range)) {
    for_each_run(shape, a, range.first, range.first + range.second,
                 [&](std::int64_t first, std::int64_t local, std::int64_t count) {
                   run(local, first - range.first, count);
                 });
  } else {
    common_of_boxes(a, b, run);
  }
}

std::vector<Region> cut_region(const Region& region, std::int64_t begin, std::int64_t end) {
  std::vector<Region> out;
  if (begin >= end) return out;
  if (region.kind == Region::Kind::kFlat) {
    out.push_back(Region::flat(region.offset[0] + begin, end - begin));
  } else if (begin == 0 && end == region.num_elements()) {
    out.push_back(region);
  } else {
    cut_box(region, 0, region, begin, end, out);
  }
  return out;
}

}  // namespace sx
