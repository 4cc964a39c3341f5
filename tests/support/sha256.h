#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sx {

/// SHA-256 (FIPS 180-4) as lower-case hex: recorded values of other programs come in it. Slow and
/// small.
std::string sha256_hex(std::string_view bytes);

/// First 16 hex digits of the hash of an array's bytes.
template <class T>
std::string sha256_16(const std::vector<T>& array) {
  return sha256_hex({reinterpret_cast<const char*>(array.data()), sizeof(T) * array.size()})
      .substr(0, 16);
}

}  // namespace sx
