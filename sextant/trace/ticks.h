#pragma once

#include <string>
#include <vector>

#include "sextant/trace/svg.h"

namespace sx {

/// An axis made ready to draw: range, ticks with their labels, and the axis label with the unit
/// that the tick labels leave out ("tokens (M)").
struct AxisScale {
  double low = 0, high = 1;
  bool log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;
  std::string label;

  /// Where `value` lies between pixel `from` and pixel `to`.
  double place(double value, double from, double to) const;
};

/// Range [low, high] of the data; widened where it is empty. Log axes need low > 0.
AxisScale make_scale(const ChartAxis& axis, double low, double high, int max_ticks);

}  // namespace sx
