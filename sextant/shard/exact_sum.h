#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace sx {

/// The exact sum of any number of doubles, rounded once at the end. So the result depends neither
/// on the order of the terms nor on how they are dealt to ranks, which is what makes a norm the
/// same number on every layout and mesh.
///
/// A fixed-point number of 68 limbs of 32 bits from 2^-1074 up; sums of ranks are sums of limbs.
/// Source: Kulisch's long accumulator (U. Kulisch, "Computer arithmetic and validity", 2008).
class ExactSum {
 public:
  static constexpr std::size_t kLimbs = 68;

  void add(double x);
  /// Adds the squares of all elements, each square rounded to double on its own (exact for fp32
  /// and narrower). Contiguous fp64, fp32, bf16 or fp16.
  void add_squares(const at::Tensor& values);

  /// False once a term was NaN or infinite; `value()` is then NaN.
  bool finite() const { return finite_; }
  /// The sum, rounded to nearest even.
  double value() const;

  /// The state as integers that may be summed element by element over up to 2^30 ranks.
  std::array<std::int64_t, kLimbs> limbs() const;
  static ExactSum from_limbs(const std::array<std::int64_t, kLimbs>& limbs, bool finite);

 private:
  template <class Wide, class T>
  void add_squares_of(const T* x, std::int64_t n);
  template <class T>
  bool add_block(const T* x, std::int64_t n);  ///< n whole lanes
  void merge(const ExactSum& other);
  static void carry(std::array<std::int64_t, kLimbs>& limbs);

  std::array<std::int64_t, kLimbs> limbs_{};  ///< carries not spread
  std::int64_t pending_ = 0;                  ///< additions since they were
  bool finite_ = true;
};

}  // namespace sx
