#pragma once

#include <cstddef>
#include <cstdint>

namespace sx {

/// What the block cache holds.
struct BlockCacheNumbers {
  std::int64_t mapped_bytes = 0;  ///< of all its blocks, in use and kept
  std::int64_t kept_bytes = 0;    ///< of blocks that wait for their next use
  std::int64_t maps = 0;          ///< blocks ever asked from the system
  std::int64_t reuses = 0;        ///< allocations served by a kept block
};

/// Puts an allocator in front of LibTorch's that keeps large freed blocks for the next tensor of
/// about that size, for the rest of the process. Call it before `install_memory_tracker`; calling
/// it again changes the limit only.
///
/// A training step frees and asks for the same large blocks again and again. Without this, each
/// goes back to the system and comes again page by page, cleared: of a GPT-2-124M step on two cores
/// a tenth of the time. Kept blocks are not cleared, and new ones use huge pages.
/// Blocks below 1 MiB pass through. A kept block serves requests from 7/8 of its size up.
/// `keep_bytes`: most memory kept while unused; the blocks unused for longest go first.
/// Threads: any.
void install_block_cache(std::int64_t keep_bytes);

/// Zeros before `install_block_cache`.
BlockCacheNumbers block_cache_numbers();

}  // namespace sx
