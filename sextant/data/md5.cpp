#include "sextant/data/md5.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sx {

namespace {

constexpr std::array<int, 16> kTurns{7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

/// floor(2^32 |sin(i + 1)|), as the RFC defines its table.
std::array<std::uint32_t, 64> make_md5_table() {
  std::array<std::uint32_t, 64> table{};
  for (std::size_t i = 0; i < 64; ++i) {
    table[i] = static_cast<std::uint32_t>(
        std::floor(std::fabs(std::sin(static_cast<double>(i + 1))) * 4294967296.0));
  }
  return table;
}

void mix_block(const char* block, const std::array<std::uint32_t, 64>& table,
               std::array<std::uint32_t, 4>& state) {
  std::array<std::uint32_t, 16> word{};
  std::memcpy(word.data(), block, 64);
  auto [a, b, c, d] = state;
  for (std::uint32_t i = 0; i < 64; ++i) {
    std::uint32_t f = 0, g = 0;
    switch (i / 16) {
      case 0: f = (b & c) | (~b & d), g = i; break;
      case 1: f = (d & b) | (~d & c), g = (5 * i + 1) % 16; break;
      case 2: f = b ^ c ^ d, g = (3 * i + 5) % 16; break;
      default: f = c ^ (b | ~d), g = 7 * i % 16; break;
    }
    f += a + table[i] + word[g];
    a = d;
    d = c;
    c = b;
    b += std::rotl(f, kTurns[4 * (i / 16) + i % 4]);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

}  // namespace

std::string md5_hex(std::string_view bytes) {
  const std::array<std::uint32_t, 64> table = make_md5_table();
  std::array<std::uint32_t, 4> state{0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
  std::size_t at = 0;
  for (; bytes.size() - at >= 64; at += 64) mix_block(bytes.data() + at, table, state);
  std::string tail(bytes.substr(at));
  tail.push_back('\x80');
  while (tail.size() % 64 != 56) tail.push_back('\0');
  const std::uint64_t bits = 8 * static_cast<std::uint64_t>(bytes.size());
  tail.append(reinterpret_cast<const char*>(&bits), 8);
  for (std::size_t i = 0; i < tail.size(); i += 64) mix_block(tail.data() + i, table, state);
  std::string hex;
  for (const std::uint32_t word : state) {
    for (int shift = 0; shift < 32; shift += 8) hex += fmt::format("{:02x}", word >> shift & 0xffu);
  }
  return hex;
}

}  // namespace sx
