#include "sextant/shard/exact_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <limits>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr int kLowest = -1074;  // exponent of limb bit 0
constexpr std::int64_t kSpread = std::int64_t{1} << 29;
constexpr std::int64_t kBlock = 4096;  // terms whose slices of 40 bits add up without rounding

}  // namespace

void ExactSum::carry(std::array<std::int64_t, kLimbs>& limbs) {
  std::int64_t carried = 0;
  for (std::int64_t& limb : limbs) {
    const std::int64_t sum = limb + carried;
    limb = sum & 0xffffffff;
    carried = sum >> 32;  // rounds down, also for negative sums
  }
  SX_CHECK(carried == 0, "a sum of squares left the range of the accumulator");
}

void ExactSum::add(double x) {
  if (x == 0.0) return;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent == 0x7ff) {
    finite_ = false;
    return;
  }
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  const int position = exponent == 0 ? 0 : exponent - 1;  // of the mantissa's lowest bit
  const auto limb = static_cast<std::size_t>(position / 32);
  const int shift = position % 32;
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const std::int64_t sign = x < 0 ? -1 : 1;
  limbs_[limb] += sign * static_cast<std::int64_t>(low & 0xffffffff);
  limbs_[limb + 1] += sign * static_cast<std::int64_t>(low >> 32);
  limbs_[limb + 2] += sign * static_cast<std::int64_t>(high);
  if (++pending_ >= kSpread) {
    carry(limbs_);
    pending_ = 0;
  }
}

/// Three slices of 40 bits of each square, cut at places that the block's largest element sets:
/// each slice sums up exactly in a double. False, and nothing added, when bits are left over or the
/// places lie outside the range.
template <class T>
bool ExactSum::add_block(const T* x, std::int64_t n) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(static_cast<double>(x[i]));
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest == 0.0) {
    for (std::int64_t i = 0; i < n; ++i)
      finite_ = finite_ && !std::isnan(static_cast<double>(x[i]));
    return true;
  }
  if (!std::isfinite(largest)) return false;
  const int top = 2 * (std::ilogb(largest) + 1);  // squares are below 2^top
  if (top + 14 > 1023 || top - 180 < -1022) return false;
  const double cut1 = std::ldexp(1.5, top + 12), cut2 = std::ldexp(1.5, top - 28),
               cut3 = std::ldexp(1.5, top - 68);
  double sum1 = 0.0, sum2 = 0.0, sum3 = 0.0, left = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    const double square = value * value;
    const double slice1 = (square + cut1) - cut1;
    const double rest1 = square - slice1;
    const double slice2 = (rest1 + cut2) - cut2;
    const double rest2 = rest1 - slice2;
    const double slice3 = (rest2 + cut3) - cut3;
    sum1 += slice1;
    sum2 += slice2;
    sum3 += slice3;
    left += std::fabs(rest2 - slice3);
  }
  if (left != 0.0) return false;  // NaN too
  add(sum1);
  add(sum2);
  add(sum3);
  return true;
}

template <class T>
void ExactSum::add_squares_of(const T* x, std::int64_t n) {
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    if (add_block(x + begin, count)) continue;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const auto value = static_cast<double>(x[i]);
      add(value * value);
    }
  }
}

void ExactSum::add_squares(const at::Tensor& values) {
  SX_CHECK(values.is_contiguous(), "squares of a tensor that is not contiguous");
  const std::int64_t n = values.numel();
  switch (values.scalar_type()) {
    case at::kDouble: return add_squares_of(values.const_data_ptr<double>(), n);
    case at::kFloat: return add_squares_of(values.const_data_ptr<float>(), n);
    case at::kBFloat16: return add_squares_of(values.const_data_ptr<c10::BFloat16>(), n);
    case at::kHalf: return add_squares_of(values.const_data_ptr<c10::Half>(), n);
    default: SX_CHECK(false, "squares of {}", toString(values.scalar_type()));
  }
}

double ExactSum::value() const {
  if (!finite_) return std::numeric_limits<double>::quiet_NaN();
  std::array<std::int64_t, kLimbs> limbs = limbs_;
  carry(limbs);
  std::size_t top = kLimbs;
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0.0;
  const auto at = [&](std::size_t back) -> std::uint64_t {  // limb below the top one
    return top > back ? static_cast<std::uint64_t>(limbs[top - 1 - back]) : 0;
  };
  const int width = 64 - std::countl_zero(at(0));  // 1..32 bits in the top limb
  // The highest 64 bits, and whether anything is set below them.
  const std::uint64_t bits =
      (at(0) << (64 - width)) | (at(1) << (32 - width)) | (width == 32 ? 0 : at(2) >> width);
  bool below = width < 32 ? (at(2) & ((std::uint64_t{1} << width) - 1)) != 0 : at(2) != 0;
  for (std::size_t back = 3; back < top; ++back) below = below || at(back) != 0;
  std::uint64_t mantissa = bits >> 11;
  const std::uint64_t rest = bits & 0x7ff;
  if (rest > 0x400 || (rest == 0x400 && (below || (mantissa & 1) != 0))) ++mantissa;
  const int highest = static_cast<int>(top - 1) * 32 + width - 1;  // bit of weight 2^(highest-1074)
  return std::ldexp(static_cast<double>(mantissa), highest - 52 + kLowest);
}

std::array<std::int64_t, ExactSum::kLimbs> ExactSum::limbs() const {
  std::array<std::int64_t, kLimbs> limbs = limbs_;
  carry(limbs);
  return limbs;
}

ExactSum ExactSum::from_limbs(const std::array<std::int64_t, kLimbs>& limbs, bool finite) {
  ExactSum sum;
  sum.limbs_ = limbs;
  sum.finite_ = finite;
  carry(sum.limbs_);
  return sum;
}

}  // namespace sx
