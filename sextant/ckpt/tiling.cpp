// Where the elements of a stored chunk lie in its tensor, and whether all chunks together are the
// tensor.
#include "sextant/ckpt/tiling.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sx {
namespace {

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

Error corrupt(const std::string& name, const std::string& what) {
  return {ErrorKind::kCorrupt, fmt::format("tensor \"{}\": {}", name, what), ""};
}

Result<void> check_bounds(const std::string& name, const StoredTensor& tensor, const Chunk& chunk) {
  if (chunk.kind == Chunk::Kind::kFlat) {
    const std::int64_t total = product(tensor.shape);
    if (chunk.offset[0] > total || chunk.size[0] > total - chunk.offset[0]) {
      return corrupt(name, fmt::format("flat chunk of {} elements at {} of {}", chunk.size[0],
                                       chunk.offset[0], total));
    }
    return {};
  }
  for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (chunk.offset[dim] > tensor.shape[dim] ||
        chunk.size[dim] > tensor.shape[dim] - chunk.offset[dim]) {
      return corrupt(
          name, fmt::format("box of size [{}] at [{}] in shape [{}]", fmt::join(chunk.size, ", "),
                            fmt::join(chunk.offset, ", "), fmt::join(tensor.shape, ", ")));
    }
  }
  return {};
}

/// The range of a chunk whose elements lie in one piece; false for other boxes.
bool as_range(const StoredTensor& tensor, const Chunk& chunk,
              std::pair<std::int64_t, std::int64_t>& range) {
  if (chunk.kind == Chunk::Kind::kFlat) {
    range = {chunk.offset[0], chunk.size[0]};
    return true;
  }
  // Dims behind the first one that is cut must be whole, dims before it of size 1.
  std::size_t cut = 0;
  while (cut < chunk.size.size() && chunk.size[cut] == 1) ++cut;
  for (std::size_t dim = cut + 1; dim < chunk.size.size(); ++dim) {
    if (chunk.size[dim] != tensor.shape[dim]) return false;
  }
  std::int64_t first = 0;
  for (std::size_t dim = 0; dim < chunk.size.size(); ++dim)
    first = first * tensor.shape[dim] + chunk.offset[dim];
  range = {first, product(chunk.size)};
  return true;
}

bool overlap(const Chunk& a, const Chunk& b) {
  for (std::size_t dim = 0; dim < a.size.size(); ++dim) {
    if (a.offset[dim] + a.size[dim] <= b.offset[dim] ||
        b.offset[dim] + b.size[dim] <= a.offset[dim])
      return false;
  }
  return true;
}

Result<void> check_ranges(const std::string& name,
                          std::vector<std::pair<std::int64_t, std::int64_t>> ranges,
                          std::int64_t total) {
  std::sort(ranges.begin(), ranges.end());
  std::int64_t position = 0;
  for (const auto& [first, count] : ranges) {
    if (first != position) {
      return corrupt(
          name, fmt::format("{} at element {}", first < position ? "chunks overlap" : "no chunk",
                            std::min(first, position)));
    }
    position += count;
  }
  if (position != total)
    return corrupt(name, fmt::format("no chunk at element {} of {}", position, total));
  return {};
}

/// Boxes within bounds that are disjoint and have the tensor's volume tile it.
Result<void> check_boxes(const std::string& name, const StoredTensor& tensor, std::int64_t total) {
  std::vector<const Chunk*> chunks;
  std::int64_t volume = 0;
  for (const Chunk& chunk : tensor.chunks) {
    if (chunk.kind == Chunk::Kind::kFlat)
      return corrupt(name, "flat ranges beside boxes that are none");
    chunks.push_back(&chunk);
    if (chunk.num_elements() > total - volume) return corrupt(name, "chunks overlap");
    volume += chunk.num_elements();
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk* a, const Chunk* b) { return a->offset < b->offset; });
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int64_t end = chunks[i]->offset[0] + chunks[i]->size[0];
    for (std::size_t j = i + 1; j < chunks.size() && chunks[j]->offset[0] < end; ++j) {
      if (overlap(*chunks[i], *chunks[j])) {
        return corrupt(
            name, fmt::format("chunks at [{}] and [{}] overlap", fmt::join(chunks[i]->offset, ", "),
                              fmt::join(chunks[j]->offset, ", ")));
      }
    }
  }
  if (volume != total)
    return corrupt(name, fmt::format("chunks hold {} of {} elements", volume, total));
  return {};
}

}  // namespace

std::int64_t Chunk::num_elements() const { return product(size); }

Result<void> check_tiling(const std::string& name, const StoredTensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  bool all_ranges = true;
  for (const Chunk& chunk : tensor.chunks) {
    SX_TRY_VOID(check_bounds(name, tensor, chunk));
    if (chunk.num_elements() == 0) return corrupt(name, "an empty chunk");
    std::pair<std::int64_t, std::int64_t> range;
    all_ranges = all_ranges && as_range(tensor, chunk, range);
    ranges.push_back(range);
  }
  const std::int64_t total = product(tensor.shape);
  return all_ranges ? check_ranges(name, std::move(ranges), total)
                    : check_boxes(name, tensor, total);
}

void for_each_run(const StoredTensor& tensor, const Chunk& chunk,
                  const std::function<void(std::int64_t first, std::int64_t count)>& run) {
  std::pair<std::int64_t, std::int64_t> range;
  if (as_range(tensor, chunk, range)) {
    if (range.second > 0) run(range.first, range.second);
    return;
  }
  // Rows of the box in row-major order: an odometer over all dims but the last.
  const std::size_t last = chunk.size.size() - 1;
  const std::int64_t row = chunk.size[last];
  std::vector<std::int64_t> index(last, 0);
  for (;;) {
    std::int64_t first = 0;
    for (std::size_t dim = 0; dim < last; ++dim)
      first = first * tensor.shape[dim] + chunk.offset[dim] + index[dim];
    run(first * tensor.shape[last] + chunk.offset[last], row);
    std::size_t dim = last;
    while (dim > 0 && ++index[dim - 1] == chunk.size[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

}  // namespace sx
