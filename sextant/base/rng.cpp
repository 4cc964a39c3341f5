#include "sextant/base/rng.h"

#include "sextant/base/hash.h"

namespace sx {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xd2511f53;
constexpr std::uint32_t kMultiplier1 = 0xcd9e8d57;
constexpr std::uint32_t kWeyl0 = 0x9e3779b9;
constexpr std::uint32_t kWeyl1 = 0xbb67ae85;
constexpr int kRounds = 10;

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name, std::uint64_t salt)
    : key_{low(seed), high(seed)}, stream_(xxh64(name, salt)) {}

std::array<std::uint32_t, 4> RandomStream::block(std::uint64_t j) const {
  return philox4x32_10({low(j), high(j), low(stream_), high(stream_)}, key_);
}

std::uint64_t RandomStream::u64(std::uint64_t i) const {
  const auto words = block(i >> 1);
  const std::size_t at = 2 * (i & 1);
  return words[at] | std::uint64_t{words[at + 1]} << 32;
}

std::uint32_t RandomStream::u32(std::uint64_t i) const { return block(i >> 2)[i & 3]; }

double RandomStream::uniform(std::uint64_t i) const {
  return (static_cast<double>(u64(i) >> 12) + 0.5) * 0x1p-52;
}

double RandomStream::normal(std::uint64_t i) const { return normal_quantile(uniform(i)); }

}  // namespace sx
