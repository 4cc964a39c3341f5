#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "sextant/token/byte_hash.h"

namespace sx {

/// A piece of 1 to 15 bytes as two words: its bytes, zero-filled, and its length in the last byte.
struct PieceKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const PieceKey&, const PieceKey&) = default;

  static constexpr std::size_t kMaxBytes = 15;

  std::uint64_t hash() const {
    return mix64(low ^ 0x9E3779B97F4A7C15u, high ^ 0xD6E8FEB86659FD93u);
  }
};

inline PieceKey piece_key(std::string_view piece) {
  PieceKey key;
  std::memcpy(&key, piece.data(), piece.size());
  key.high |= static_cast<std::uint64_t>(piece.size()) << 56;
  return key;
}

/// The same; 16 bytes from `at` on must be readable.
inline PieceKey piece_key_wide(const char* at, std::size_t size) {
  PieceKey key;
  std::memcpy(&key, at, 16);
  const unsigned bits = static_cast<unsigned>(size) * 8;
  // Shifts stay below 64: size is 1 to 15.
  const std::uint64_t low_mask = size >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t high_mask = size > 8 ? (std::uint64_t{1} << (bits - 64)) - 1 : 0;
  key.low &= low_mask;
  key.high = (key.high & high_mask) | static_cast<std::uint64_t>(size) << 56;
  return key;
}

}  // namespace sx
