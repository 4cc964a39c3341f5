#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sx {

/// Philox4x32-10: four 32-bit words from (counter, key).
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Random123
/// constants.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

/// A named stream of random numbers: element i is a pure function of (seed, name, salt, i), so any
/// slice can be made alone and the numbers do not depend on ranks, threads or restarts. This is the
/// program's only random source.
///
/// key = (lo32(seed), hi32(seed)); stream = XXH64(name, salt); block j has counter (lo32(j),
/// hi32(j), lo32(stream), hi32(stream)). A stream is read by one of its two views only.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name, std::uint64_t salt = 0);

  /// 64-bit view: words 2*(i&1) (low) and 2*(i&1)+1 (high) of block i>>1.
  std::uint64_t u64(std::uint64_t i) const;
  /// 32-bit view: word i&3 of block i>>2.
  std::uint32_t u32(std::uint64_t i) const;
  /// ((x >> 12) + 0.5) * 2^-52 of the 64-bit view: in (0, 1).
  double uniform(std::uint64_t i) const;
  /// Standard normal of `uniform(i)` by `normal_quantile`.
  double normal(std::uint64_t i) const;

  std::uint64_t stream() const { return stream_; }

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t j) const;
  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
};

/// Inverse of the standard normal distribution function, p in (0, 1), about 16 digits; no FMA
/// contraction. Source: Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37(3), 1988.
double normal_quantile(double p);

}  // namespace sx
