#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "sextant/ckpt/manifest.h"

namespace sx {

/// Calls `run(first, count)` for each run of a chunk's elements that lies in one piece in the
/// row-major order of the whole tensor: `count` elements from global index `first`. The chunk's own
/// bytes hold the runs one after the other.
void for_each_run(const StoredTensor& tensor, const Chunk& chunk,
                  const std::function<void(std::int64_t first, std::int64_t count)>& run);

}  // namespace sx
