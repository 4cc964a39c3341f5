#include "sextant/ckpt/logical_checksum.h"

#include <bit>
#include <cstring>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5;

#if defined(__x86_64__) && defined(__GNUC__)
#define SX_WIDE_MULTIPLY __attribute__((target("avx512f,avx512dq,avx512vl")))
bool has_wide_multiply() {
  return __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#else
#define SX_WIDE_MULTIPLY
bool has_wide_multiply() { return false; }
#endif

[[gnu::always_inline]] inline std::uint64_t xxh64_of_word(std::uint64_t word, std::uint64_t seed) {
  std::uint64_t h = seed + kPrime5 + 8;
  h ^= std::rotl(word * kPrime2, 31) * kPrime1;
  h = std::rotl(h, 27) * kPrime1 + kPrime4;
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}

template <class Bits>
[[gnu::always_inline]] inline std::uint64_t sum_loop(const std::byte* bytes, std::size_t count,
                                                     std::uint64_t first) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    sum += xxh64_of_word(first + i, bits);
  }
  return sum;
}

/// The same, compiled for processors that multiply eight 64-bit words at once.
template <class Bits>
SX_WIDE_MULTIPLY std::uint64_t sum_wide(const std::byte* bytes, std::size_t count,
                                        std::uint64_t first) {
  return sum_loop<Bits>(bytes, count, first);
}

template <class Bits>
std::uint64_t sum_of(std::span<const std::byte> bytes, std::uint64_t first) {
  const std::size_t count = bytes.size() / sizeof(Bits);
  return has_wide_multiply() ? sum_wide<Bits>(bytes.data(), count, first)
                             : sum_loop<Bits>(bytes.data(), count, first);
}

}  // namespace

std::uint64_t logical_checksum(std::span<const std::byte> bytes, std::int64_t element_bytes,
                               std::uint64_t first) {
  switch (element_bytes) {
    case 1: return sum_of<std::uint8_t>(bytes, first);
    case 2: return sum_of<std::uint16_t>(bytes, first);
    case 4: return sum_of<std::uint32_t>(bytes, first);
    case 8: return sum_of<std::uint64_t>(bytes, first);
    default: SX_CHECK(false, "elements of {} bytes", element_bytes);
  }
}

}  // namespace sx
