#pragma once

#include <cstdint>

namespace sx {

/// A token's number. Ids on disk may be narrower (u16 where the vocabulary allows); in memory they
/// are always 32 bits.
using TokenId = std::uint32_t;

}  // namespace sx
