#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sx {

/// Multiply and fold: the high and low half of a 128-bit product.
inline std::uint64_t mix64(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// A quick hash of short byte strings for tables in memory. Never stored: another version may hash
/// otherwise.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  std::uint64_t hash = bytes.size() * kOdd;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix64(hash ^ word, kOdd);
  }
  std::uint64_t word = 0;
  if (left != 0) std::memcpy(&word, at, left);
  return mix64(hash ^ word, kOdd ^ 0xD6E8FEB86659FD93u);
}

}  // namespace sx
