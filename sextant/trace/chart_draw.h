#pragma once

#include <string>
#include <vector>

#include "sextant/trace/svg.h"
#include "sextant/trace/svg_canvas.h"

namespace sx {

/// Below this width a chart is laid out for a phone: labels above bars, fewer ticks, names in a
/// legend.
inline constexpr int kNarrowWidth = 600;
/// The three drawings a page holds of each chart; the style sheet shows the one that fits the
/// window.
inline constexpr int kChartWidths[] = {1100, 720, 388};
/// "chart wide", "chart mid", "chart narrow": the classes of a drawing of that width.
std::string chart_class(int width);

/// Parts into which a line is resampled for drawing at a width.
int max_buckets_at(int width);

/// "h0" ... "h5": the class that carries a hue's colour.
std::string hue_class(Hue hue);

std::string draw_line_chart(const LineChart& chart, int width, const std::string& id);
std::string draw_small_multiples(const SmallMultiples& chart, int width, const std::string& id);
std::string draw_stacked_bars(const StackedBars& chart, int width, const std::string& id);
std::string draw_funnel(const Funnel& chart, int width, const std::string& id);
std::string draw_histogram(const Histogram& chart, int width, const std::string& id);

}  // namespace sx
