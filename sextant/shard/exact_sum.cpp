#include "sextant/shard/exact_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr int kLowest = -1074;  // exponent of limb bit 0
constexpr std::int64_t kSpread = std::int64_t{1} << 29;
constexpr std::int64_t kBlock = 4096;  // terms whose slices of 40 bits add up without rounding
constexpr std::int64_t kLanes = 16;    // sums side by side; exact, so their order is free
constexpr std::int64_t kGrain = std::int64_t{1} << 18;  // elements worth another thread

struct Cuts {
  double high, middle, low;
};
struct Slices {
  double high = 0.0, middle = 0.0, low = 0.0, left = 0.0;
};

// The widest vectors of the machine at hand; IEEE operations, so the same values on all. The choice
// is made while the program is being loaded, too early for an instrumented function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SX_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SX_WIDE
#endif

/// Infinite if an element is NaN.
template <class T>
[[gnu::always_inline]] inline double largest_of(const T* x, std::int64_t n) {
  std::array<T, kLanes> largest{};
  std::array<T, kLanes> invalid{};  // stays zero for finite elements, else becomes NaN
  for (std::int64_t i = 0; i < n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const T magnitude = std::fabs(x[i + lane]);
      largest[lane] = magnitude > largest[lane] ? magnitude : largest[lane];
      invalid[lane] += x[i + lane] * T{0};
    }
  }
  T most{0}, sum{0};
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    most = std::max(most, largest[lane]);
    sum += invalid[lane];
  }
  return sum == T{0} ? static_cast<double>(most) : std::numeric_limits<double>::infinity();
}

template <class T>
[[gnu::always_inline]] inline Slices slice(const T* x, std::int64_t n, Cuts cuts) {
  std::array<double, kLanes> high{}, middle{}, low{}, left{};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      const double square = value * value;
      const double slice1 = (square + cuts.high) - cuts.high;
      const double rest1 = square - slice1;
      const double slice2 = (rest1 + cuts.middle) - cuts.middle;
      const double rest2 = rest1 - slice2;
      const double slice3 = (rest2 + cuts.low) - cuts.low;
      high[lane] += slice1;
      middle[lane] += slice2;
      low[lane] += slice3;
      left[lane] += std::fabs(rest2 - slice3);
    }
  }
  Slices sums;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    sums.high += high[lane];
    sums.middle += middle[lane];
    sums.low += low[lane];
    sums.left += left[lane];
  }
  return sums;
}

SX_WIDE double largest_magnitude(const float* x, std::int64_t n) { return largest_of(x, n); }
SX_WIDE double largest_magnitude(const double* x, std::int64_t n) { return largest_of(x, n); }
SX_WIDE Slices slice_squares(const float* x, std::int64_t n, Cuts cuts) {
  return slice(x, n, cuts);
}
SX_WIDE Slices slice_squares(const double* x, std::int64_t n, Cuts cuts) {
  return slice(x, n, cuts);
}
#undef SX_WIDE

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
  const double largest = largest_magnitude(x, n);
  if (largest == 0.0) return true;
  if (!std::isfinite(largest)) return false;
  const int top = 2 * (std::ilogb(largest) + 1);  // squares are below 2^top
  if (top + 14 > 1023 || top - 180 < -1022) return false;
  const Slices sums = slice_squares(
      x, n, {std::ldexp(1.5, top + 12), std::ldexp(1.5, top - 28), std::ldexp(1.5, top - 68)});
  if (sums.left != 0.0) return false;
  add(sums.high);
  add(sums.middle);
  add(sums.low);
  return true;
}

template <class Wide, class T>
void ExactSum::add_squares_of(const T* x, std::int64_t n) {
  std::array<Wide, kBlock> block;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    std::copy(x + begin, x + begin + count, block.begin());
    // Whole lanes: zeros add nothing.
    const std::int64_t whole = (count + kLanes - 1) / kLanes * kLanes;
    std::fill(block.begin() + count, block.begin() + whole, Wide{0});
    if (add_block(block.data(), whole)) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(block[static_cast<std::size_t>(i)]);
      add(value * value);
    }
  }
}

void ExactSum::merge(const ExactSum& other) {
  carry(limbs_);
  const auto limbs = other.limbs();
  for (std::size_t i = 0; i < kLimbs; ++i) limbs_[i] += limbs[i];
  pending_ = 2;
  finite_ = finite_ && other.finite_;
}

void ExactSum::add_squares(const at::Tensor& values) {
  SX_CHECK(values.is_contiguous(), "squares of a tensor that is not contiguous");
  std::mutex mutex;
  at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    ExactSum part;
    const std::int64_t n = end - begin;
    switch (values.scalar_type()) {
      case at::kDouble:
        part.add_squares_of<double>(values.const_data_ptr<double>() + begin, n);
        break;
      case at::kFloat: part.add_squares_of<float>(values.const_data_ptr<float>() + begin, n); break;
      case at::kBFloat16:
        part.add_squares_of<float>(values.const_data_ptr<c10::BFloat16>() + begin, n);
        break;
      case at::kHalf:
        part.add_squares_of<float>(values.const_data_ptr<c10::Half>() + begin, n);
        break;
      default: SX_CHECK(false, "squares of {}", toString(values.scalar_type()));
    }
    const std::scoped_lock lock(mutex);
    merge(part);
  });
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
