#pragma once

#include <cstdint>
#include <string>

namespace sx {

/// Numbers as people read them on pages. Thousands are parted by a thin space (U+2009), a number
/// and its unit by a no-break space (U+00A0); files use json_text.h instead.

/// 1234567 -> "1 234 567".
std::string group_thousands(std::int64_t value);
/// Three significant digits, zeros at the end kept for alignment only when `keep_zeros`:
/// 0.91, 41.2, 12 300.
std::string three_digits(double value, bool keep_zeros = false);
/// Counts: below a million exact with thin spaces, above "1.23 M", "4.5 G".
std::string count_text(double value);
/// Rates: "34.5 k", "918".
std::string rate_text(double value);
/// Binary prefixes: "61.4 GiB", "512 B".
std::string bytes_text(double bytes);
/// "512 ms", "3.2 s", "2 min 5 s", "3 h 12 min".
std::string seconds_text(double seconds);
/// 0.412 -> "41.2 %", 0.00714 -> "0.71 %".
std::string percent_text(double share);

/// Kinds of figures, so that a page can format what its data block holds.
enum class NumberKind {
  kPlain,   ///< three significant digits
  kFixed2,  ///< two decimals: losses and entropies
  kFixed3,
  kCount,  ///< exact below a million
  kRate,   ///< three significant digits with k, M, G
  kBytes,
  kSeconds,
  kPercent,  ///< of a share 0..1
};
std::string number_text(double value, NumberKind kind);

}  // namespace sx
