#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sx {

/// Checksum of a tensor's content that does not depend on how it is cut: the sum modulo 2^64, over
/// its elements, of XXH64(row-major index as 8 little-endian bytes, seed = the element's bits).
/// Pieces are added up in any order, so a reader with another layout can check that every element
/// is at its place.
///
/// `bytes` holds the elements [first, first + bytes.size() / element_bytes); element_bytes is 1, 2,
/// 4 or 8.
/// Source:  XXH64 for inputs of 8 bytes, xxHash specification 0.1.1 (2.2 to 2.6).
std::uint64_t logical_checksum(std::span<const std::byte> bytes, std::int64_t element_bytes,
                               std::uint64_t first = 0);

}  // namespace sx
