#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sx {

/// The generator behind `numpy.random.RandomState(seed)`, bit for bit: MT19937 (Matsumoto and
/// Nishimura, ACM TOMACS 8(1), 1998) seeded by its `init_genrand`, and numpy's legacy shuffle,
/// whose stream numpy keeps frozen. Only for orders that another program made; everything else in
/// Sextant draws from `RandomStream`.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed);

  std::uint32_t u32() {
    if (next_ == kWords) refill();
    return ready_[next_++];
  }
  /// Two draws, the high word first.
  std::uint64_t u64() {
    const std::uint64_t high = u32();
    return high << 32 | u32();
  }
  /// A number in [0, max] by masked rejection: the mask is the next power of two above `max`, minus
  /// 1; one 32-bit draw a try for max < 2^32, else one of 64 bits.
  std::uint64_t interval(std::uint64_t max);

  /// `RandomState.shuffle` of a one-dimensional array.
  void shuffle(std::span<std::int32_t> array);
  void shuffle(std::span<std::uint32_t> array);
  void shuffle(std::span<std::int64_t> array);

 private:
  static constexpr std::size_t kWords = 624;
  void refill();
  template <class T>
  void shuffle_array(std::span<T> array);
  std::array<std::uint32_t, kWords> state_;
  std::array<std::uint32_t, kWords> ready_{};  ///< tempered words of the state
  std::size_t next_ = kWords;
};

}  // namespace sx
