#include "sextant/data/numpy_random.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sx {

namespace {

constexpr std::size_t kShift = 397;

/// One step of the recurrence without its third term.
std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ ((0u - (low & 1u)) & 0x9908b0dfu);
}

std::uint32_t temper(std::uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

std::uint64_t mask_for(std::uint64_t max) {
  return max == 0 ? 0 : ~std::uint64_t{0} >> (64 - std::bit_width(max));
}

/// Draws made before their swaps, so that the memory they reach is on its way.
constexpr std::size_t kAhead = 64;

}  // namespace

NumpyRandom::NumpyRandom(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

void NumpyRandom::refill() {
  // Three loops whose reads never touch what the same few iterations write: compilers widen them.
  std::uint32_t* const s = state_.data();
  for (std::size_t i = 0; i < kWords - kShift; ++i) s[i] = s[i + kShift] ^ twist(s[i], s[i + 1]);
  for (std::size_t i = kWords - kShift; i < kWords - 1; ++i) {
    s[i] = s[i + kShift - kWords] ^ twist(s[i], s[i + 1]);
  }
  s[kWords - 1] = s[kShift - 1] ^ twist(s[kWords - 1], s[0]);
  for (std::size_t i = 0; i < kWords; ++i) ready_[i] = temper(s[i]);
  next_ = 0;
}

std::uint64_t NumpyRandom::interval(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = mask_for(max);
  std::uint64_t value = 0;
  if (max <= 0xffffffffu) {
    do {
      value = u32() & mask;
    } while (value > max);
  } else {
    do {
      value = u64() & mask;
    } while (value > max);
  }
  return value;
}

template <class T>
void NumpyRandom::shuffle_array(std::span<T> array) {
  std::array<std::uint64_t, kAhead> partner;
  for (std::size_t i = array.size(); i > 1;) {
    const std::size_t count = std::min(kAhead, i - 1);
    for (std::size_t d = 0; d < count; ++d) {
      partner[d] = interval(i - 1 - d);
      __builtin_prefetch(&array[partner[d]], 1);
    }
    for (std::size_t d = 0; d < count; ++d) std::swap(array[i - 1 - d], array[partner[d]]);
    i -= count;
  }
}

void NumpyRandom::shuffle(std::span<std::int32_t> array) { shuffle_array(array); }
void NumpyRandom::shuffle(std::span<std::uint32_t> array) { shuffle_array(array); }
void NumpyRandom::shuffle(std::span<std::int64_t> array) { shuffle_array(array); }

}  // namespace sx
