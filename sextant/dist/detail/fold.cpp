// The one place where values of several ranks become one: a left fold in rank order over plain
// loops that the compiler turns into vector code. Nothing here knows about threads or messages.
#include "sextant/dist/detail/fold.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "sextant/base/check.h"

namespace sx::detail {
namespace {

constexpr std::int64_t kBlockBytes = 16 * 1024;

/// bfloat16 as stored: the upper half of a float32.
struct Bf16 {
  std::uint16_t bits;
};

template <class T>
struct Element {
  using Acc = T;
  static Acc load(T x) { return x; }
  static T store(Acc x) { return x; }
};

template <>
struct Element<Bf16> {
  using Acc = float;
  static float load(Bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
  }
  static Bf16 store(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t even = (bits >> 16) & 1u;
    const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffu + even) >> 16);
    return {x != x ? std::uint16_t{0x7fc0} : rounded};
  }
};

template <>
struct Element<c10::Half> {
  using Acc = float;
  static float load(c10::Half x) { return static_cast<float>(x); }
  static c10::Half store(float x) { return c10::Half(x); }
};

template <class Acc>
Acc add(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>) {
    using Unsigned = std::make_unsigned_t<Acc>;
    return static_cast<Acc>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

/// `x != x` hands on NaN from either side.
template <ReduceOp kOp, class Acc>
Acc combine(Acc a, Acc b) {
  if constexpr (kOp == ReduceOp::kSum) return add(a, b);
  if constexpr (kOp == ReduceOp::kMax) return (a > b || a != a) ? a : b;
  if constexpr (kOp == ReduceOp::kMin) return (a < b || a != a) ? a : b;
}

template <class T, ReduceOp kOp>
void fold_as(std::span<const std::byte* const> inputs, std::byte* out_bytes, std::int64_t numel) {
  using Acc = typename Element<T>::Acc;
  constexpr std::int64_t kBlock = kBlockBytes / static_cast<std::int64_t>(sizeof(Acc));
  alignas(64) Acc acc[static_cast<std::size_t>(kBlock)];
  auto* out = reinterpret_cast<T*>(out_bytes);
  for (std::int64_t begin = 0; begin < numel; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, numel - begin);
    const T* first = reinterpret_cast<const T*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) acc[i] = Element<T>::load(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      const T* next = reinterpret_cast<const T*>(input) + begin;
      for (std::int64_t i = 0; i < n; ++i)
        acc[i] = combine<kOp, Acc>(acc[i], Element<T>::load(next[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) out[begin + i] = Element<T>::store(acc[i]);
  }
}

template <class T>
void fold_with(ReduceOp op, std::span<const std::byte* const> inputs, std::byte* out,
               std::int64_t numel) {
  switch (op) {
    case ReduceOp::kSum: return fold_as<T, ReduceOp::kSum>(inputs, out, numel);
    case ReduceOp::kMax: return fold_as<T, ReduceOp::kMax>(inputs, out, numel);
    case ReduceOp::kMin: return fold_as<T, ReduceOp::kMin>(inputs, out, numel);
  }
}

}  // namespace

void fold(at::ScalarType dtype, ReduceOp op, std::span<const std::byte* const> inputs,
          std::byte* out, std::int64_t numel) {
  SX_CHECK(!inputs.empty(), "a fold over no ranks");
  if (numel == 0) return;
  switch (dtype) {
    case at::kDouble: return fold_with<double>(op, inputs, out, numel);
    case at::kFloat: return fold_with<float>(op, inputs, out, numel);
    case at::kBFloat16: return fold_with<Bf16>(op, inputs, out, numel);
    case at::kHalf: return fold_with<c10::Half>(op, inputs, out, numel);
    case at::kLong: return fold_with<std::int64_t>(op, inputs, out, numel);
    case at::kInt: return fold_with<std::int32_t>(op, inputs, out, numel);
    case at::kChar: return fold_with<std::int8_t>(op, inputs, out, numel);
    case at::kByte:
    case at::kBool: return fold_with<std::uint8_t>(op, inputs, out, numel);
    default: SX_CHECK(false, "{} cannot be reduced", c10::toString(dtype));
  }
}

}  // namespace sx::detail
