#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "sextant/base/rng.h"

namespace sx::property {

/// Random inputs for property tests: everything is a function of the case's seed.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : stream_(seed, "test.property") {}

  std::uint64_t u64() { return stream_.u64(num_drawn_++); }
  /// A number in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t span =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    const std::uint64_t x = u64();
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (span == 0 ? x : x % span));
  }
  /// A length in [0, max] that is often small and sometimes an end of the range: where defects
  /// live.
  std::size_t size(std::size_t max) {
    const std::int64_t kind = integer(0, 9);
    if (kind == 0) return 0;
    if (kind == 1) return max;
    const std::size_t limit = kind < 6 && max > 8 ? 8 : max;
    return static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(limit)));
  }
  /// A number in (0, 1).
  double real() { return stream_.uniform(num_drawn_++); }
  bool chance(double probability) { return real() < probability; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(
        integer(0, static_cast<std::int64_t>(values.size()) - 1))];
  }
  /// Bytes of all values.
  std::string bytes(std::size_t max) {
    std::string out(size(max), '\0');
    for (char& c : out) c = static_cast<char>(u64());
    return out;
  }
  /// Valid UTF-8 of one to four bytes a character, without surrogates.
  std::string text(std::size_t max_characters);
  template <class Make>
  auto vector(std::size_t max, Make&& make) {
    std::vector<decltype(make())> out(size(max));
    for (auto& value : out) value = make();
    return out;
  }

 private:
  RandomStream stream_;
  std::uint64_t num_drawn_ = 0;
};

inline std::string Generator::text(std::size_t max_characters) {
  std::string out;
  for (std::size_t left = size(max_characters); left > 0; --left) {
    static constexpr std::uint32_t kEnds[] = {0x80, 0x800, 0x10000, 0x110000};
    auto c = static_cast<std::uint32_t>(u64() % kEnds[integer(0, 3)]);
    if (c >= 0xd800 && c < 0xe000) c -= 0xd800;
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    const int num_more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out += static_cast<char>((0xff00 >> (num_more + 1) & 0xff) | (c >> (6 * num_more)));
    for (int k = num_more - 1; k >= 0; --k)
      out += static_cast<char>(0x80 | ((c >> (6 * k)) & 0x3f));
  }
  return out;
}

/// The cases of one property: case i has seed `seed + i`; stops at the first case that failed and
/// prints its seed.
class Cases {
 public:
  using HasFailed = bool (*)();
  Cases(int num_cases, std::uint64_t seed, HasFailed has_failed = &testing::Test::HasFailure)
      : end_(seed + static_cast<std::uint64_t>(num_cases)), seed_(seed), has_failed_(has_failed) {}
  bool go_on() const { return seed_ != end_ && !stopped_; }
  Generator make() const { return Generator(seed_); }
  void advance() {
    stopped_ = has_failed_();
    if (stopped_)
      std::fprintf(stderr, "SX_PROPERTY(1, %llu) repeats the case that failed\n",
                   static_cast<unsigned long long>(seed_));
    ++seed_;
  }

 private:
  std::uint64_t end_;
  std::uint64_t seed_;
  HasFailed has_failed_;
  bool stopped_ = false;
};

}  // namespace sx::property

/// SX_PROPERTY(200, 1) { const auto n = generator.integer(1, 64); EXPECT_...; }
#define SX_PROPERTY(num_cases, seed)                                                          \
  for (::sx::property::Cases sx_cases(num_cases, seed); sx_cases.go_on(); sx_cases.advance()) \
    if (::sx::property::Generator generator = sx_cases.make(); true)
