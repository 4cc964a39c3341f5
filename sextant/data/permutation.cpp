#include "sextant/data/permutation.h"

#include <algorithm>
#include <bit>

#include "sextant/base/check.h"

namespace sx {

namespace {

std::uint64_t mix(std::uint64_t value, std::uint64_t key, int bits) {
  value = (value ^ key) * 0x9E3779B97F4A7C15u;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93u;
  return value >> (64 - bits);
}

}  // namespace

Permutation::Permutation(const RandomStream& stream, std::uint64_t epoch, std::uint64_t n) : n_(n) {
  SX_CHECK(n >= 1 && n <= std::uint64_t{1} << 62, "permutation of {}", n);
  // Below eight bits six rounds do not mix enough: some orders of n = 5 would come far too often.
  const int bits = std::max(8, static_cast<int>(std::bit_width(n - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (std::size_t r = 0; r < keys_.size(); ++r) keys_[r] = stream.u64(8 * epoch + r);
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  SX_DCHECK(i < n_, "position {} of {}", i, n_);
  if (n_ == 1) return 0;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1;
  std::uint64_t x = i;
  do {
    std::uint64_t high = x >> low_bits_;
    std::uint64_t low = x & low_mask;
    for (std::size_t r = 0; r < keys_.size(); r += 2) {
      high ^= mix(low, keys_[r], high_bits_);
      low ^= mix(high, keys_[r + 1], low_bits_);
    }
    x = high << low_bits_ | low;
  } while (x >= n_);
  return x;
}

std::uint64_t Permutation::inverse(std::uint64_t u) const {
  SX_DCHECK(u < n_, "unit {} of {}", u, n_);
  if (n_ == 1) return 0;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1;
  std::uint64_t x = u;
  do {
    std::uint64_t high = x >> low_bits_;
    std::uint64_t low = x & low_mask;
    for (std::size_t r = keys_.size(); r > 0; r -= 2) {
      low ^= mix(high, keys_[r - 1], low_bits_);
      high ^= mix(low, keys_[r - 2], high_bits_);
    }
    x = high << low_bits_ | low;
  } while (x >= n_);
  return x;
}

}  // namespace sx
