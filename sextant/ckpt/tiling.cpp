// Whether all chunks of a tensor together are the tensor.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sextant/ckpt/manifest.h"

namespace sx {
namespace {

Error corrupt(const std::string& name, const std::string& what) {
  return {ErrorKind::kCorrupt, fmt::format("tensor \"{}\": {}", name, what), ""};
}

Result<void> check_bounds(const std::string& name, const StoredTensor& tensor, const Chunk& chunk) {
  if (chunk.kind == Chunk::Kind::kFlat) {
    const std::int64_t total = num_elements(tensor.shape);
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

Result<void> check_tiling(const std::string& name, const StoredTensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  bool all_ranges = true;
  for (const Chunk& chunk : tensor.chunks) {
    SX_TRY_VOID(check_bounds(name, tensor, chunk));
    if (chunk.num_elements() == 0) return corrupt(name, "an empty chunk");
    std::pair<std::int64_t, std::int64_t> range;
    all_ranges = all_ranges && as_range(tensor.shape, chunk, range);
    ranges.push_back(range);
  }
  const std::int64_t total = num_elements(tensor.shape);
  return all_ranges ? check_ranges(name, std::move(ranges), total)
                    : check_boxes(name, tensor, total);
}

}  // namespace sx
