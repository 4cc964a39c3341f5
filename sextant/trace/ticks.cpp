#include "sextant/trace/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// What tick values are divided by, and how the axis label tells so.
struct TickUnit {
  double factor = 1;
  std::string name;
};

std::string superscript(int value) {
  static constexpr std::array<const char*, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                          "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = value < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(value))) {
    out += kDigits[static_cast<std::size_t>(c - '0')];
  }
  return out;
}

TickUnit largest_unit(double magnitude, std::initializer_list<std::pair<double, const char*>> units,
                      double at_least) {
  TickUnit unit;
  for (const auto& [factor, name] : units) {
    if (magnitude >= factor * at_least) unit = {factor, name};
  }
  return unit;
}

TickUnit unit_for(NumberKind kind, double magnitude) {
  switch (kind) {
    case NumberKind::kRate:
      return largest_unit(magnitude, {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}}, 2);
    case NumberKind::kCount:
      return largest_unit(magnitude, {{1, ""}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}, 1);
    case NumberKind::kBytes:
      return largest_unit(magnitude,
                          {{1, "B"},
                           {1024.0, "KiB"},
                           {1048576.0, "MiB"},
                           {1073741824.0, "GiB"},
                           {1099511627776.0, "TiB"}},
                          2);
    case NumberKind::kSeconds:
      return largest_unit(magnitude,
                          {{1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}}, 2);
    case NumberKind::kPercent: return {0.01, "%"};
    case NumberKind::kPlain:
    case NumberKind::kFixed2:
    case NumberKind::kFixed3: break;
  }
  if (magnitude > 0 && (magnitude < 1e-2 || magnitude >= 1e6)) {
    const int power = static_cast<int>(std::floor(std::log10(magnitude)));
    return {std::pow(10.0, power), "×10" + superscript(power)};
  }
  return {};
}

/// Decimals that tell neighbouring ticks apart.
int decimals_of(const std::vector<double>& ticks) {
  for (int decimals = 0; decimals < 6; ++decimals) {
    const double scale = std::pow(10.0, decimals);
    const bool exact = std::all_of(ticks.begin(), ticks.end(), [&](double t) {
      return std::fabs(t * scale - std::round(t * scale)) <
             1e-6 * std::max(1.0, std::fabs(t * scale));
    });
    if (exact) return decimals;
  }
  return 6;
}

std::string tick_text(double value, int decimals) {
  if (decimals == 0) return group_thousands(std::llround(value));
  return (value < 0 ? "\u2212" : "") + fmt::format("{:.{}f}", std::fabs(value), decimals);
}

double round_step(double span, int max_ticks) {
  const double raw = span / std::max(1, max_ticks - 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int max_ticks) {
  SX_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high && max_ticks >= 2,
           "ticks between {} and {}", low, high);
  if (low == high) return {low};
  // The smallest round step that gives few enough ticks.
  double step = round_step((high - low) / 2, max_ticks);
  for (;; step = round_step(step * (max_ticks - 1) * 1.5, max_ticks)) {
    std::vector<double> ticks;
    const double first = std::ceil(low / step - 1e-9);
    for (double n = first; n * step <= high + 1e-9 * step; ++n) ticks.push_back(n * step + 0.0);
    if (ticks.size() <= static_cast<std::size_t>(max_ticks)) return ticks;
  }
}

std::vector<double> log_ticks(double low, double high, int max_ticks) {
  SX_CHECK(low > 0 && low <= high && max_ticks >= 1, "log ticks between {} and {}", low, high);
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  if (last < first) return {low};
  int step = 1;
  while ((last - first) / step + 1 > max_ticks) ++step;
  std::vector<double> ticks;
  for (int power = first; power <= last; power += step) ticks.push_back(std::pow(10.0, power));
  return ticks;
}

double AxisScale::place(double value, double from, double to) const {
  const double share =
      log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + share * (to - from);
}

AxisScale make_scale(const ChartAxis& axis, double low, double high, int max_ticks) {
  AxisScale scale;
  scale.log = axis.log;
  if (axis.from_zero && !axis.log) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  if (low == high) {
    const double margin = low == 0 ? 1 : std::fabs(low) * 0.1;
    low = axis.log ? low / 2 : axis.from_zero ? std::min(0.0, low) : low - margin;
    high = axis.log ? high * 2 : high + margin;
  }
  scale.low = low;
  scale.high = high;
  if (axis.log) {
    scale.ticks = log_ticks(low, high, max_ticks);
    for (const double tick : scale.ticks) {
      const double power = std::log10(tick);
      const bool whole = std::fabs(power - std::round(power)) < 1e-6;
      scale.labels.push_back(whole ? "10" + superscript(static_cast<int>(std::lround(power)))
                                   : three_digits(tick));
    }
    scale.label = axis.label + ", log scale";
    return scale;
  }
  const TickUnit unit = unit_for(axis.kind, std::max(std::fabs(low), std::fabs(high)));
  std::vector<double> shown = round_ticks(low / unit.factor, high / unit.factor, max_ticks);
  if (axis.kind == NumberKind::kCount && unit.name.empty()) {
    std::erase_if(shown, [](double tick) { return tick != std::round(tick); });
  }
  const int decimals = decimals_of(shown);
  for (const double tick : shown) {
    scale.ticks.push_back(tick * unit.factor);
    scale.labels.push_back(tick_text(tick, decimals));
  }
  scale.label = unit.name.empty() ? axis.label : axis.label + " (" + unit.name + ")";
  return scale;
}

}  // namespace sx
