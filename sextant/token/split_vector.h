#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sextant/token/splitter.h"

namespace sx {

/// Instructions that `split_many` may use. All give equal ends.
enum class SplitLevel {
  kScalar,    ///< one piece after the other by split_next
  kPortable,  ///< windows of 64 bytes as bit masks, in plain C++
  kAvx2,
  kAvx512
};
const char* to_string(SplitLevel level);
/// The best that this processor has.
SplitLevel best_split_level();

/// Ends of the pieces that begin at `pos`, one after the other, as offsets from `pos`: exactly what
/// repeated `split_next` gives. Stops when `ends` is full or the segment is at its end; gives their
/// number.
///
/// Inputs:  ends  at least 64 places
/// Threads: safe.
std::size_t split_many(SplitFamily family, std::string_view segment, std::size_t pos,
                       std::span<std::uint32_t> ends);
std::size_t split_many(SplitFamily family, std::string_view segment, std::size_t pos,
                       std::span<std::uint32_t> ends, SplitLevel level);

}  // namespace sx
