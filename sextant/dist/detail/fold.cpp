// The one place where values of several ranks become one: a left fold in rank order. Nothing here
// knows about threads or messages. The loops are written once over vectors of 64 bytes, which the
// compiler splits as the instruction set asks for.
#include "sextant/dist/detail/fold.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "sextant/base/check.h"

// Vectors are passed to functions that are always inlined, so no calling convention is at stake.
#pragma GCC diagnostic ignored "-Wpsabi"

#define SX_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace sx::detail {
namespace {

constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kVectorsPerTile = 4;

template <class T, std::size_t kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <class T, std::size_t kLanes = kVectorBytes / sizeof(T)>
using Vec = typename VectorOf<T, kLanes>::type;

using F32 = Vec<float>;
using U32 = Vec<std::uint32_t>;
using U16 = Vec<std::uint16_t, 16>;

template <class V>
SX_ALWAYS_INLINE V load_vector(const std::byte* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}

/// std::bit_cast, which would be a call where nothing is optimised.
template <class To, class From>
SX_ALWAYS_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/// An element type as stored, and the vector it accumulates in.
template <class T>
struct Element {
  static constexpr std::size_t kBytes = sizeof(T);
  using Acc = Vec<T>;
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(T);
  static SX_ALWAYS_INLINE Acc load(const std::byte* p) { return load_vector<Acc>(p); }
  static SX_ALWAYS_INLINE Acc store(Acc x) { return x; }
};

struct Bf16 {};
struct Fp16 {};

/// bfloat16: the upper half of a float32.
template <>
struct Element<Bf16> {
  static constexpr std::size_t kBytes = 2;
  using Acc = F32;
  static constexpr std::size_t kLanes = 16;
  static SX_ALWAYS_INLINE F32 load(const std::byte* p) {
    return bits_as<F32>(__builtin_convertvector(load_vector<U16>(p), U32) << 16);
  }
  static SX_ALWAYS_INLINE U16 store(F32 x) {
    const U32 bits = bits_as<U32>(x);
    const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return __builtin_convertvector(x != x ? U32{} + 0x7fc0u : rounded, U16);
  }
};

/// IEEE half. Only integer steps and one addition whose operands and result are normal numbers, so
/// that flushing of denormals changes nothing. Source of the idea: F. Giesen, "Float->half
/// variants", 2012.
template <>
struct Element<Fp16> {
  static constexpr std::size_t kBytes = 2;
  using Acc = F32;
  static constexpr std::size_t kLanes = 16;
  static SX_ALWAYS_INLINE F32 load(const std::byte* p) {
    const U32 half = __builtin_convertvector(load_vector<U16>(p), U32);
    const U32 sign = (half & 0x8000u) << 16;
    const U32 magnitude = (half & 0x7fffu) << 13;
    const U32 exponent = magnitude & (0x7c00u << 13);
    const U32 normal = magnitude + (112u << 23);
    const U32 special = magnitude + (224u << 23);  // infinities and NaN
    const F32 two_to_minus_14 = bits_as<F32>(U32{} + (113u << 23));
    const U32 small = bits_as<U32>(bits_as<F32>(normal + (1u << 23)) - two_to_minus_14);
    const U32 bits = exponent == 0u ? small : (exponent == (0x7c00u << 13) ? special : normal);
    return bits_as<F32>(bits | sign);
  }
  static SX_ALWAYS_INLINE U16 store(F32 x) {
    const U32 all = bits_as<U32>(x);
    const U32 sign = all & 0x80000000u;
    const U32 magnitude = all ^ sign;
    // Below 2^-14: adding 0.5 leaves the rounded result in the low bits.
    const U32 half_bits = U32{} + (126u << 23);
    const U32 small = bits_as<U32>(bits_as<F32>(magnitude) + bits_as<F32>(half_bits)) - half_bits;
    const U32 normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    U32 half = magnitude < (113u << 23) ? small : normal;
    half = magnitude >= (143u << 23) ? U32{} + 0x7c00u : half;
    half = magnitude > (255u << 23) ? U32{} + 0x7e00u : half;
    return __builtin_convertvector(half | (sign >> 16), U16);
  }
};

/// `a != a` hands on NaN from the left; a NaN on the right loses every comparison and is taken.
template <ReduceOp kOp, class V>
SX_ALWAYS_INLINE V combine(V a, V b) {
  using T = std::remove_cvref_t<decltype(a[0])>;
  if constexpr (kOp == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = Vec<std::make_unsigned_t<T>>;
      return bits_as<V>(bits_as<Unsigned>(a) + bits_as<Unsigned>(b));
    } else {
      return a + b;
    }
  } else if constexpr (kOp == ReduceOp::kMax) {
    return ((a > b) | (a != a)) ? a : b;
  } else {
    return ((a < b) | (a != a)) ? a : b;
  }
}

SX_ALWAYS_INLINE void store_streaming(std::byte* out, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < bytes; i += 16) {
    __m128i x;
    __builtin_memcpy(&x, from + i, 16);
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), x);
  }
#else
  std::memcpy(out, from, bytes);
#endif
}

void end_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

struct FoldArgs {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outs;
  std::int64_t numel;
  StoreMode mode;
};

/// Four vectors at byte `at` of every input, to byte `at` of every output.
template <class T, ReduceOp kOp>
SX_ALWAYS_INLINE void fold_tile(std::span<const std::byte* const> inputs,
                                std::span<std::byte* const> outs, std::size_t at, bool stream) {
  using E = Element<T>;
  constexpr std::size_t kStored = E::kLanes * E::kBytes;
  typename E::Acc acc[kVectorsPerTile];
  const std::byte* first = inputs[0] + at;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kVectorsPerTile; ++v) acc[v] = E::load(first + v * kStored);
  for (std::size_t r = 1; r < inputs.size(); ++r) {
    const std::byte* next = inputs[r] + at;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectorsPerTile; ++v) {
      acc[v] = combine<kOp>(acc[v], E::load(next + v * kStored));
    }
  }
  decltype(E::store(acc[0])) stored[kVectorsPerTile];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kVectorsPerTile; ++v) stored[v] = E::store(acc[v]);
  for (std::byte* out : outs) {
    if (stream) {
      store_streaming(out + at, reinterpret_cast<const std::byte*>(stored), sizeof(stored));
    } else {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectorsPerTile; ++v) {
        __builtin_memcpy(out + at + v * kStored, &stored[v], kStored);
      }
    }
  }
}

/// A part that is no whole tile, by way of padded copies, so that there is one arithmetic.
template <class T, ReduceOp kOp>
SX_ALWAYS_INLINE void fold_part(const FoldArgs& a, std::size_t at, std::size_t bytes) {
  constexpr std::size_t kTile = kVectorsPerTile * Element<T>::kLanes * Element<T>::kBytes;
  alignas(64) std::byte sum[kTile] = {};
  alignas(64) std::byte next[kTile] = {};
  std::memcpy(sum, a.inputs[0] + at, bytes);
  // With 16-bit elements a sum that was rounded in between would differ: fold all ranks at once.
  if constexpr (sizeof(typename Element<T>::Acc) == Element<T>::kLanes * Element<T>::kBytes) {
    std::byte* const out[1] = {sum};
    for (std::size_t r = 1; r < a.inputs.size(); ++r) {
      std::memcpy(next, a.inputs[r] + at, bytes);
      const std::byte* const both[2] = {sum, next};
      fold_tile<T, kOp>(both, out, 0, false);
    }
  } else {
    using E = Element<T>;
    constexpr std::size_t kStored = E::kLanes * E::kBytes;
    typename E::Acc acc[kVectorsPerTile];
    for (std::size_t v = 0; v < kVectorsPerTile; ++v) acc[v] = E::load(sum + v * kStored);
    for (std::size_t r = 1; r < a.inputs.size(); ++r) {
      std::memcpy(next, a.inputs[r] + at, bytes);
      for (std::size_t v = 0; v < kVectorsPerTile; ++v) {
        acc[v] = combine<kOp>(acc[v], E::load(next + v * kStored));
      }
    }
    for (std::size_t v = 0; v < kVectorsPerTile; ++v) {
      const auto stored = E::store(acc[v]);
      std::memcpy(sum + v * kStored, &stored, kStored);
    }
  }
  for (std::byte* out : a.outs) std::memcpy(out + at, sum, bytes);
}

template <class T, ReduceOp kOp>
SX_ALWAYS_INLINE void fold_all(const FoldArgs& a) {
  constexpr std::size_t kTile = kVectorsPerTile * Element<T>::kLanes * Element<T>::kBytes;
  const std::size_t end = static_cast<std::size_t>(a.numel) * Element<T>::kBytes;
  std::size_t at = 0;
  bool stream = a.mode == StoreMode::kStream && a.outs.size() == 1;
  if (stream) {  // whole lines from the first aligned one on
    const std::size_t off = reinterpret_cast<std::uintptr_t>(a.outs[0]) % kVectorBytes;
    const std::size_t head = off == 0 ? 0 : kVectorBytes - off;
    stream = head % Element<T>::kBytes == 0 && head + kTile <= end;
    if (stream && head > 0) {
      fold_part<T, kOp>(a, 0, head);
      at = head;
    }
  }
  for (; at + kTile <= end; at += kTile) fold_tile<T, kOp>(a.inputs, a.outs, at, stream);
  if (at < end) fold_part<T, kOp>(a, at, end - at);
  if (stream) end_streaming();
}

template <class T, ReduceOp kOp>
void fold_base(const FoldArgs& a) {
  fold_all<T, kOp>(a);
}
#if defined(__x86_64__)
template <class T, ReduceOp kOp>
[[gnu::target("avx2")]] void fold_avx2(const FoldArgs& a) {
  fold_all<T, kOp>(a);
}
template <class T, ReduceOp kOp>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void fold_avx512(
    const FoldArgs& a) {
  fold_all<T, kOp>(a);
}
#endif

template <class T, ReduceOp kOp>
void fold_as(const FoldArgs& a, Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return fold_avx512<T, kOp>(a);
  if (isa == Isa::kAvx2) return fold_avx2<T, kOp>(a);
#endif
  (void)isa;
  fold_base<T, kOp>(a);
}

template <class T>
void fold_with(ReduceOp op, const FoldArgs& a, Isa isa) {
  switch (op) {
    case ReduceOp::kSum: return fold_as<T, ReduceOp::kSum>(a, isa);
    case ReduceOp::kMax: return fold_as<T, ReduceOp::kMax>(a, isa);
    case ReduceOp::kMin: return fold_as<T, ReduceOp::kMin>(a, isa);
  }
}

void stream_copy(std::byte* out, const std::byte* from, std::size_t bytes) {
  const std::size_t off = reinterpret_cast<std::uintptr_t>(out) % kVectorBytes;
  const std::size_t head = std::min(bytes, off == 0 ? 0 : kVectorBytes - off);
  std::memcpy(out, from, head);
  const std::size_t body = (bytes - head) / kVectorBytes * kVectorBytes;
  for (std::size_t at = head; at < head + body; at += kVectorBytes) {
    store_streaming(out + at, from + at, kVectorBytes);
  }
  std::memcpy(out + head + body, from + head + body, bytes - head - body);
  end_streaming();
}

}  // namespace

Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return Isa::kAvx2;
#endif
  return Isa::kBase;
}

void fold(at::ScalarType dtype, ReduceOp op, std::span<const std::byte* const> inputs,
          std::span<std::byte* const> outs, std::int64_t numel, StoreMode mode, Isa isa) {
  SX_CHECK(!inputs.empty(), "a fold over no ranks");
  if (numel == 0 || outs.empty()) return;
  const FoldArgs a{inputs, outs, numel, mode};
  switch (dtype) {
    case at::kDouble: return fold_with<double>(op, a, isa);
    case at::kFloat: return fold_with<float>(op, a, isa);
    case at::kBFloat16: return fold_with<Bf16>(op, a, isa);
    case at::kHalf: return fold_with<Fp16>(op, a, isa);
    case at::kLong: return fold_with<std::int64_t>(op, a, isa);
    case at::kInt: return fold_with<std::int32_t>(op, a, isa);
    case at::kChar: return fold_with<std::int8_t>(op, a, isa);
    case at::kByte:
    case at::kBool: return fold_with<std::uint8_t>(op, a, isa);
    default: SX_CHECK(false, "{} cannot be reduced", c10::toString(dtype));
  }
}

void copy_to_all(const std::byte* source, std::span<std::byte* const> outs, std::int64_t bytes,
                 StoreMode mode) {
  const auto n = static_cast<std::size_t>(bytes);
  for (std::byte* out : outs) {
    if (out == source || n == 0) continue;
    if (mode == StoreMode::kStream) {
      stream_copy(out, source, n);
    } else {
      std::memcpy(out, source, n);
    }
  }
}

}  // namespace sx::detail
