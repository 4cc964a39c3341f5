#include "sextant/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace sx {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits{
    Unit{"B", 1},
    Unit{"KiB", 1024.0},
    Unit{"MiB", 1024.0 * 1024},
    Unit{"GiB", 1024.0 * 1024 * 1024},
    Unit{"TiB", 1024.0 * 1024 * 1024 * 1024},
    Unit{"KB", 1e3},
    Unit{"MB", 1e6},
    Unit{"GB", 1e9},
    Unit{"TB", 1e12},
};
constexpr std::array kTimeUnits{
    Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1},
    Unit{"min", 60},  Unit{"h", 3600},  Unit{"d", 86400},
};
constexpr std::array kCountUnits{
    Unit{"", 1}, Unit{"k", 1e3}, Unit{"M", 1e6}, Unit{"B", 1e9}, Unit{"T", 1e12},
};

Error invalid(std::string_view text, std::string_view what, std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) {
    if (!unit.name.empty()) names += (names.empty() ? "" : " ") + std::string(unit.name);
  }
  return {ErrorKind::kInvalid,
          fmt::format("\"{}\" is not a {}: a number and one of {}", text, what, names), ""};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Scaled {
  double number;
  double factor;
};

/// Number, optional spaces, unit of the list. No sign, no exponent: "1e3B" is more often a slip
/// than meant.
bool parse_scaled(std::string_view text, std::span<const Unit> units, Scaled& out) {
  std::string digits;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool between_digits =
        at > 0 && at + 1 < text.size() && is_digit(text[at - 1]) && is_digit(text[at + 1]);
    if (c == '_' && between_digits) continue;
    if (c != '.' && !is_digit(c)) break;
    digits += c;
  }
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out.number,
                                           std::chars_format::fixed);
  if (code != std::errc() || end != digits.data() + digits.size()) return false;
  while (at < text.size() && text[at] == ' ') ++at;
  for (const Unit& unit : units) {
    if (unit.name == text.substr(at)) {
      out.factor = unit.factor;
      return true;
    }
  }
  return false;
}

/// Whole and inside 63 bits, or false. Plain integers beyond 2^53 are read exactly.
bool to_integer(std::string_view text, const Scaled& scaled, std::int64_t& out) {
  if (scaled.factor == 1 && text.find('.') == std::string_view::npos) {
    std::string digits;
    for (const char c : text) {
      if (is_digit(c)) digits += c;
    }
    return std::from_chars(digits.data(), digits.data() + digits.size(), out).ec == std::errc();
  }
  const double value = scaled.number * scaled.factor;
  if (value >= 0x1p63) return false;
  // 1.1 * 1000 is not whole in binary, yet meant to be.
  if (value < 0x1p52 && std::abs(value - std::round(value)) > 1e-9 * value) return false;
  out = std::llround(value);
  return true;
}

std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  Scaled scaled{};
  std::int64_t bytes = 0;
  if (!parse_scaled(text, kByteUnits, scaled) || !to_integer(text, scaled, bytes)) {
    return invalid(text, "size", kByteUnits);
  }
  return Bytes(bytes);
}

Result<Seconds> parse_duration(std::string_view text) {
  Scaled scaled{};
  if (!parse_scaled(text, kTimeUnits, scaled)) return invalid(text, "duration", kTimeUnits);
  return Seconds(scaled.number * scaled.factor);
}

Result<std::int64_t> parse_count(std::string_view text) {
  Scaled scaled{};
  std::int64_t count = 0;
  if (!parse_scaled(text, kCountUnits, scaled) || !to_integer(text, scaled, count)) {
    return invalid(text, "count", kCountUnits);
  }
  return count;
}

std::string format_bytes(Bytes bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes.value));
  const char* sign = bytes.value < 0 ? "-" : "";
  if (magnitude < 1024) return fmt::format("{} B", bytes.value);
  double scaled = magnitude / 1024;
  for (const char* unit : {"KiB", "MiB", "GiB", "TiB"}) {
    if (scaled < 1023.5 || std::string_view(unit) == "TiB") {
      return fmt::format("{}{} {}", sign, three_digits(scaled), unit);
    }
    scaled /= 1024;
  }
  return "";
}

std::string format_duration(Seconds seconds) {
  const double s = seconds.value;
  if (!std::isfinite(s)) return fmt::format("{}", s);
  if (s < 0) return "-" + format_duration(Seconds(-s));
  if (s == 0) return "0 s";
  if (s < 0.0009995) return fmt::format("{:.0f} us", s * 1e6);
  if (s < 0.9995) return fmt::format("{:.{}f} ms", s * 1e3, s < 0.00995 ? 1 : 0);
  if (s < 59.95) return fmt::format("{:.1f} s", s);
  if (s > 1e15) return fmt::format("{:.3g} s", s);
  const auto whole = static_cast<std::int64_t>(std::llround(s));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return fmt::format("{}", count);
  if (count < 0) return "-" + format_count(-count);
  if (count < 999.5) return fmt::format("{:.3g}", count);
  double scaled = count / 1e3;
  for (const char* unit : {"k", "M", "G", "T"}) {
    if (scaled < 999.5 || *unit == 'T') return three_digits(scaled) + unit;
    scaled /= 1e3;
  }
  return "";
}

}  // namespace sx
