#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sx {

/// Appends an unsigned integer, lowest byte first.
template <class Int>
void append_int(std::string& out, Int value) {
  for (std::size_t i = 0; i < sizeof(Int); ++i)
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

/// The unsigned integer that `append_int` wrote at byte `at`; the caller has checked the length.
template <class Int>
Int read_int(std::string_view bytes, std::size_t at) {
  Int value = 0;
  for (std::size_t i = 0; i < sizeof(Int); ++i) {
    value |= static_cast<Int>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

}  // namespace sx
