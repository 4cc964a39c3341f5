#include "sextant/trace/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace sx {
namespace {

constexpr const char* kThinSpace = "\u2009";
constexpr const char* kNoBreakSpace = "\u00a0";
constexpr const char* kMinus = "\u2212";

std::string group_digits(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += kThinSpace;
    out += digits[i];
  }
  return out;
}

/// Decimals that leave three significant digits of a value >= 1000 / 1000...; never negative.
int decimals_for(double magnitude) {
  if (magnitude == 0) return 0;
  return std::max(0, 2 - static_cast<int>(std::floor(std::log10(magnitude))));
}

std::string not_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "\u221e" : std::string(kMinus) + "\u221e";
}

}  // namespace

std::string group_thousands(std::int64_t value) {
  const std::string digits = fmt::format("{}", value);
  if (value < 0) return kMinus + group_digits(digits.substr(1));
  return group_digits(digits);
}

std::string three_digits(double value, bool keep_zeros) {
  if (!std::isfinite(value)) return not_finite(value);
  const double magnitude = std::fabs(value);
  const std::string sign = value < 0 ? kMinus : "";
  if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e9)) {
    // 3.0e-04 as people write it in this field.
    return sign + fmt::format("{:.{}e}", magnitude, keep_zeros ? 2 : 1);
  }
  // Rounding may add a digit (9.996 -> 10.0), so the decimals are those of the rounded number.
  int decimals = decimals_for(magnitude);
  std::string text = fmt::format("{:.{}f}", magnitude, decimals);
  decimals = decimals_for(std::stod(text));
  text = fmt::format("{:.{}f}", magnitude, decimals);
  if (!keep_zeros && text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  const auto dot = text.find('.');
  const std::string whole = text.substr(0, dot);
  if (text == "0") return text;
  return sign + group_digits(whole) + (dot == std::string::npos ? "" : text.substr(dot));
}

std::string count_text(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  const double magnitude = std::fabs(value);
  if (magnitude < 1e6) {
    if (value == std::floor(value)) return group_thousands(static_cast<std::int64_t>(value));
    return three_digits(value);
  }
  static constexpr std::array<std::pair<double, const char*>, 4> kSteps = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}}};
  for (const auto& [unit, name] : kSteps) {
    if (magnitude >= unit * 0.9995 || unit == 1e6) {
      return three_digits(value / unit, true) + kNoBreakSpace + name;
    }
  }
  return {};
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return not_finite(bytes);
  static constexpr std::array<const char*, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t power = 0;
  while (power + 1 < kNames.size() && std::fabs(bytes) >= 1023.5) {
    bytes /= 1024;
    ++power;
  }
  return three_digits(bytes, power > 0) + kNoBreakSpace + kNames[power];
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return not_finite(seconds);
  const double magnitude = std::fabs(seconds);
  if (magnitude == 0) return std::string("0") + kNoBreakSpace + "s";
  if (magnitude < 0.9995e-3) return three_digits(seconds * 1e6) + kNoBreakSpace + "\u00b5s";
  if (magnitude < 0.9995) return three_digits(seconds * 1e3) + kNoBreakSpace + "ms";
  if (magnitude < 119.5) return three_digits(seconds) + kNoBreakSpace + "s";
  const auto total = static_cast<std::int64_t>(std::llround(magnitude));
  const std::string sign = seconds < 0 ? kMinus : "";
  const auto part = [](std::int64_t value, const char* unit) {
    return fmt::format("{}{}{}", value, kNoBreakSpace, unit);
  };
  const auto pair = [&](std::int64_t big, const char* big_unit, std::int64_t small,
                        const char* small_unit) {
    const std::string first = sign + part(big, big_unit);
    return small == 0 ? first : first + kNoBreakSpace + part(small, small_unit);
  };
  if (total < 3600) return pair(total / 60, "min", total % 60, "s");
  if (total < 86400) return pair(total / 3600, "h", total % 3600 / 60, "min");
  return pair(total / 86400, "d", total % 86400 / 3600, "h");
}

std::string rate_text(double value) {
  const double magnitude = std::fabs(value);
  if (!std::isfinite(value) || magnitude < 999.5) return three_digits(value);
  if (magnitude < 999.5e3) return three_digits(value / 1e3, true) + kNoBreakSpace + "k";
  return count_text(value);
}

std::string percent_text(double share) {
  const double percent = share * 100;
  if (!std::isfinite(percent)) return not_finite(percent);
  const double magnitude = std::fabs(percent);
  if (magnitude > 0 && magnitude < 0.005)
    return std::string("<") + kThinSpace + "0.01" + kNoBreakSpace + "%";
  if (magnitude >= 1) return three_digits(percent) + kNoBreakSpace + "%";
  std::string text = fmt::format("{:.2f}", magnitude);
  if (text.ends_with(".00")) text.resize(text.size() - 3);
  return (percent < 0 ? kMinus : "") + text + kNoBreakSpace + "%";
}

std::string number_text(double value, NumberKind kind) {
  if (!std::isfinite(value)) return not_finite(value);
  switch (kind) {
    case NumberKind::kPlain: return three_digits(value);
    case NumberKind::kFixed2:
    case NumberKind::kFixed3: {
      const std::string text =
          fmt::format("{:.{}f}", std::fabs(value), kind == NumberKind::kFixed2 ? 2 : 3);
      return (value < 0 ? kMinus : "") + text;
    }
    case NumberKind::kCount: return count_text(value);
    case NumberKind::kRate: return rate_text(value);
    case NumberKind::kBytes: return bytes_text(value);
    case NumberKind::kSeconds: return seconds_text(value);
    case NumberKind::kPercent: return percent_text(value);
  }
  return {};
}

}  // namespace sx
