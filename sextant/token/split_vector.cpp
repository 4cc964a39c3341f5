#include "sextant/token/split_vector.h"

#include <cstring>

#include "sextant/base/check.h"
#include "sextant/token/char_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sx {
namespace {

constexpr std::size_t kWindow = 64;

// Bit i tells about byte i of a window.
struct ByteMasks {
  std::uint64_t letter = 0;  // ASCII letters
  std::uint64_t upper = 0;
  std::uint64_t digit = 0;
  std::uint64_t white = 0;  // U+0009-000D, U+0020
  std::uint64_t space = 0;  // U+0020
  std::uint64_t newline = 0;
  std::uint64_t apostrophe = 0;
  std::uint64_t slash = 0;
  std::uint64_t high = 0;  // not ASCII
};

// Length of 's 't 'm 'd 're 've 'll at `at` (an apostrophe), 0 for none; at[2] is readable.
// `folded`: case does not matter, and U+017F counts as s.
inline unsigned contraction_size(const char* at, bool folded) {
  const auto lower = [folded](char c) {
    return folded && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char a = lower(at[1]), b = lower(at[2]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return folded && at[1] == '\xC5' && at[2] == '\xBF' ? 3 : 0;
}

std::size_t split_many_scalar(SplitFamily family, std::string_view segment, std::size_t pos,
                              std::span<std::uint32_t> ends) {
  constexpr std::size_t kFarthest = std::size_t{1} << 31;
  const std::size_t base = pos;
  std::size_t count = 0;
  while (pos < segment.size() && count < ends.size() && pos - base < kFarthest) {
    pos = split_next(family, segment, pos);
    SX_CHECK(pos - base <= 0xffffffffu, "a piece of more than 2 GiB");
    ends[count++] = static_cast<std::uint32_t>(pos - base);
  }
  return count;
}

#define SX_SPLIT_TARGET
namespace split_portable {
inline ByteMasks load_masks(const char* at) {
  ByteMasks m;
  for (unsigned i = 0; i < kWindow; ++i) {
    const auto c = static_cast<unsigned char>(at[i]);
    const std::uint64_t bit = std::uint64_t{1} << i;
    if (c >= 0x80) {
      m.high |= bit;
      continue;
    }
    if ((c | 32) >= 'a' && (c | 32) <= 'z') m.letter |= bit;
    if (c >= 'A' && c <= 'Z') m.upper |= bit;
    if (c >= '0' && c <= '9') m.digit |= bit;
    if (c == ' ' || (c >= 9 && c <= 13)) m.white |= bit;
    if (c == ' ') m.space |= bit;
    if (c == '\n' || c == '\r') m.newline |= bit;
    if (c == '\'') m.apostrophe |= bit;
    if (c == '/') m.slash |= bit;
  }
  return m;
}
#include "sextant/token/detail/split_window.inc"
}  // namespace split_portable
#undef SX_SPLIT_TARGET

#if defined(__x86_64__)
#define SX_SPLIT_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt")))
namespace split_avx2 {
SX_SPLIT_TARGET inline std::uint64_t bits_of(__m256i low, __m256i high) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(high))) << 32;
}
// first <= c < first + count, bytes taken as unsigned.
SX_SPLIT_TARGET inline __m256i in_range(__m256i c, char first, char count) {
  const __m256i moved = _mm256_sub_epi8(c, _mm256_set1_epi8(first));
  const __m256i last = _mm256_set1_epi8(static_cast<char>(count - 1));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(moved, last), moved);
}
SX_SPLIT_TARGET inline ByteMasks load_masks(const char* at) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32));
  const __m256i to_lower = _mm256_set1_epi8(32);
  const auto is = [&](char c) __attribute__((target("avx2,bmi,bmi2,lzcnt"))) {
    const __m256i wanted = _mm256_set1_epi8(c);
    return bits_of(_mm256_cmpeq_epi8(a, wanted), _mm256_cmpeq_epi8(b, wanted));
  };
  ByteMasks m;
  m.letter = bits_of(in_range(_mm256_or_si256(a, to_lower), 'a', 26),
                     in_range(_mm256_or_si256(b, to_lower), 'a', 26));
  m.upper = bits_of(in_range(a, 'A', 26), in_range(b, 'A', 26));
  m.digit = bits_of(in_range(a, '0', 10), in_range(b, '0', 10));
  m.space = is(' ');
  m.white = m.space | bits_of(in_range(a, 9, 5), in_range(b, 9, 5));
  m.newline = is('\n') | is('\r');
  m.apostrophe = is('\'');
  m.slash = is('/');
  m.high = bits_of(a, b);
  return m;
}
#include "sextant/token/detail/split_window.inc"
}  // namespace split_avx2
#undef SX_SPLIT_TARGET

#define SX_SPLIT_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,lzcnt")))
namespace split_avx512 {
SX_SPLIT_TARGET inline ByteMasks load_masks(const char* at) {
  const __m512i c = _mm512_loadu_si512(at);
  const __m512i lower = _mm512_or_si512(c, _mm512_set1_epi8(32));
  ByteMasks m;
  m.letter =
      _mm512_cmplt_epu8_mask(_mm512_sub_epi8(lower, _mm512_set1_epi8('a')), _mm512_set1_epi8(26));
  m.upper = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(c, _mm512_set1_epi8('A')), _mm512_set1_epi8(26));
  m.digit = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(c, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
  m.space = _mm512_cmpeq_epi8_mask(c, _mm512_set1_epi8(' '));
  m.white = m.space |
            _mm512_cmplt_epu8_mask(_mm512_sub_epi8(c, _mm512_set1_epi8(9)), _mm512_set1_epi8(5));
  m.newline = _mm512_cmpeq_epi8_mask(c, _mm512_set1_epi8('\n')) |
              _mm512_cmpeq_epi8_mask(c, _mm512_set1_epi8('\r'));
  m.apostrophe = _mm512_cmpeq_epi8_mask(c, _mm512_set1_epi8('\''));
  m.slash = _mm512_cmpeq_epi8_mask(c, _mm512_set1_epi8('/'));
  m.high = _mm512_movepi8_mask(c);
  return m;
}
#include "sextant/token/detail/split_window.inc"
}  // namespace split_avx512
#undef SX_SPLIT_TARGET
#endif

}  // namespace

const char* to_string(SplitLevel level) {
  switch (level) {
    case SplitLevel::kScalar: return "scalar";
    case SplitLevel::kPortable: return "portable";
    case SplitLevel::kAvx2: return "avx2";
    case SplitLevel::kAvx512: return "avx512";
  }
  return "scalar";
}

SplitLevel best_split_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("bmi2"))
    return SplitLevel::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return SplitLevel::kAvx2;
#endif
  return SplitLevel::kPortable;
}

std::size_t split_many(SplitFamily family, std::string_view segment, std::size_t pos,
                       std::span<std::uint32_t> ends, SplitLevel level) {
  SX_DCHECK(ends.size() >= kWindow, "split_many needs {} places", kWindow);
  if (family == SplitFamily::kNone || level == SplitLevel::kScalar)
    return split_many_scalar(family, segment, pos, ends);
#if defined(__x86_64__)
  if (level == SplitLevel::kAvx512) return split_avx512::split_family(family, segment, pos, ends);
  if (level == SplitLevel::kAvx2) return split_avx2::split_family(family, segment, pos, ends);
#endif
  return split_portable::split_family(family, segment, pos, ends);
}

std::size_t split_many(SplitFamily family, std::string_view segment, std::size_t pos,
                       std::span<std::uint32_t> ends) {
  static const SplitLevel level = best_split_level();
  return split_many(family, segment, pos, ends, level);
}

}  // namespace sx
