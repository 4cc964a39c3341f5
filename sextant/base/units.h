#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

/// A number with a unit that does not mix with another unit's.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value + b.value);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
};
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;

/// Parses "4MiB", "1GB", "64 KiB" (KiB MiB GiB TiB = 1024^n, KB MB GB TB = 1000^n, B). Errors:
/// kInvalid.
Result<Bytes> parse_bytes(std::string_view text);
/// Parses "90s", "10min", "250ms", "1.5h", "2d", "30us". Errors: kInvalid.
Result<Seconds> parse_duration(std::string_view text);
/// Parses "300B", "12k", "1_000_000", "7" (decimal k M B T). Errors: kInvalid.
Result<std::int64_t> parse_count(std::string_view text);

/// "61.4 GiB", "512 B".
std::string format_bytes(Bytes bytes);
/// "512 ms", "3.2 s", "3h12m".
std::string format_duration(Seconds seconds);
/// Three significant digits with k M G: "12.3k".
std::string format_count(double count);

}  // namespace sx
