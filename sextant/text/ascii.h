#pragma once

#include <algorithm>
#include <string_view>

namespace sx {

/// The small letter of an ASCII capital; every other byte as it is.
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// Equal but for the case of ASCII letters.
constexpr bool equal_fold(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

}  // namespace sx
