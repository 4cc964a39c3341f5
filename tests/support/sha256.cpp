#include "tests/support/sha256.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

namespace sx {

namespace {

/// The first 32 bits behind the point of root(p) for the first primes p: the standard's constants.
template <std::size_t N>
std::array<std::uint32_t, N> fraction_bits_of_roots(long double (*root)(long double)) {
  std::array<std::uint32_t, N> bits{};
  std::size_t found = 0;
  for (std::uint32_t candidate = 2; found < N; ++candidate) {
    bool prime = true;
    for (std::uint32_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (!prime) continue;
    const long double value = root(static_cast<long double>(candidate));
    bits[found++] = static_cast<std::uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }
  return bits;
}

std::string padded(std::string_view bytes) {
  std::string message(bytes);
  message += '\x80';
  while (message.size() % 64 != 56) message += '\0';
  const std::uint64_t bits = 8 * static_cast<std::uint64_t>(bytes.size());
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bits >> shift);
  return message;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  const auto k = fraction_bits_of_roots<64>([](long double x) { return std::cbrt(x); });
  auto h = fraction_bits_of_roots<8>([](long double x) { return std::sqrt(x); });
  const std::string message = padded(bytes);
  for (std::size_t at = 0; at < message.size(); at += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 64; ++i)
      w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(message[at + i]);
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, last] = h;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = last + s1 + ((e & f) ^ (~e & g)) + k[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      last = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> add{a, b, c, d, e, f, g, last};
    for (std::size_t i = 0; i < 8; ++i) h[i] += add[i];
  }
  std::string hex;
  for (const std::uint32_t word : h) hex += fmt::format("{:08x}", word);
  return hex;
}

}  // namespace sx
