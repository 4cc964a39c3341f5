#pragma once

#include <array>
#include <cstdint>

#include "sextant/base/rng.h"

namespace sx {

/// A keyed bijection of [0, n): position -> unit, without memory (docs/notes/data_order.md).
///
/// An unbalanced Feistel network of six rounds over b = max(8, bit_width(n - 1)) bits, walked until
/// the value lies below n (fewer than two walks on average for n > 128). The keys are elements 8 *
/// epoch + 0 .. 5 of the stream.
class Permutation {
 public:
  /// n in [1, 2^62].
  Permutation(const RandomStream& stream, std::uint64_t epoch, std::uint64_t n);

  std::uint64_t size() const { return n_; }
  /// Unit at position i < n.
  std::uint64_t operator()(std::uint64_t i) const;
  /// Position of unit u < n.
  std::uint64_t inverse(std::uint64_t u) const;

 private:
  std::uint64_t n_;
  int low_bits_ = 0;
  int high_bits_ = 0;
  std::array<std::uint64_t, 6> keys_{};
};

}  // namespace sx
