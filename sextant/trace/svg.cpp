#include "sextant/trace/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sextant/trace/chart_draw.h"
#include "sextant/trace/json_text.h"
#include "sextant/trace/ticks.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

template <class... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overload(Fs...) -> Overload<Fs...>;

std::vector<const LineChart*> panels_of(const Chart& chart) {
  if (const auto* line = std::get_if<LineChart>(&chart)) return {line};
  std::vector<const LineChart*> panels;
  if (const auto* multiples = std::get_if<SmallMultiples>(&chart)) {
    for (const LineChart& panel : multiples->panels) panels.push_back(&panel);
  }
  return panels;
}

bool starts_at_zero(const LineChart& chart) {
  if (chart.y.log || chart.y.from_zero) return true;
  double low = 0;
  bool any = false;
  for (const LineSeries& series : chart.series) {
    for (const auto& point : series.points) {
      if (!std::isfinite(point.second)) continue;
      low = any ? std::min(low, point.second) : point.second;
      any = true;
    }
  }
  return !any || low <= 0;
}

}  // namespace

std::string draw_svg(const Chart& chart, int width, const std::string& id) {
  return std::visit(Overload{
                        [&](const LineChart& c) { return draw_line_chart(c, width, id); },
                        [&](const SmallMultiples& c) { return draw_small_multiples(c, width, id); },
                        [&](const StackedBars& c) { return draw_stacked_bars(c, width, id); },
                        [&](const Funnel& c) { return draw_funnel(c, width, id); },
                        [&](const Histogram& c) { return draw_histogram(c, width, id); },
                    },
                    chart);
}

const std::string& chart_title(const Chart& chart) {
  return std::visit([](const auto& c) -> const std::string& { return c.title; }, chart);
}

std::string chart_caption(const Chart& chart) {
  std::string text = std::visit([](const auto& c) { return c.how_to_read; }, chart);
  const auto add = [&](const std::string& sentence) {
    if (!text.empty()) text += ' ';
    text += sentence;
  };
  bool from_zero = true, banded = false;
  std::int64_t gaps = 0, most = 0;
  const auto panels = panels_of(chart);
  for (const LineChart* panel : panels) {
    from_zero = from_zero && starts_at_zero(*panel);
    for (const LineSeries& series : panel->series) {
      const auto points = static_cast<std::int64_t>(series.points.size());
      most = std::max(most, points);
      banded = banded || points > max_buckets_at(kNarrowWidth);
      gaps += std::count_if(series.points.begin(), series.points.end(),
                            [](const auto& p) { return !std::isfinite(p.second); });
    }
  }
  if (!from_zero) {
    add(panels.size() > 1 ? "Vertical axes need not start at zero."
                          : "The vertical axis does not start at zero.");
  }
  if (banded) {
    add(
        fmt::format("{} points are drawn in {} parts: the line is the median of each, the band "
                    "reaches from its smallest to its largest value.",
                    group_thousands(most), max_buckets_at(kNarrowWidth)));
  }
  if (gaps > 0) {
    add(fmt::format("{} value{} not finite and left out.", gaps, gaps == 1 ? " is" : "s are"));
  }
  return text;
}

std::vector<std::pair<std::string, Hue>> chart_legend(const Chart& chart) {
  std::vector<std::pair<std::string, Hue>> legend;
  for (const LineChart* panel : panels_of(chart)) {
    if (panel->series.size() < 2) continue;
    for (const LineSeries& series : panel->series) {
      const std::pair<std::string, Hue> entry{series.name, series.hue};
      if (std::find(legend.begin(), legend.end(), entry) == legend.end()) legend.push_back(entry);
    }
  }
  return legend;
}

std::string chart_hover_json(const Chart& chart) {
  const auto panels = panels_of(chart);
  if (panels.empty()) return {};
  ordered_json out;
  out["x"] = panels.front()->x.label;
  out["panels"] = ordered_json::array();
  for (const LineChart* panel : panels) {
    ordered_json series_list = ordered_json::array();
    for (const LineSeries& series : panel->series) {
      ordered_json points = ordered_json::array();
      for (const Bucket& b : resample(series.points, max_buckets_at(kNarrowWidth))) {
        ordered_json point = ordered_json::array({b.x, b.median});
        if (b.count > 1) {
          point.push_back(b.low);
          point.push_back(b.high);
        }
        points.push_back(std::move(point));
      }
      series_list.push_back({{"name", series.name}, {"points", std::move(points)}});
    }
    out["panels"].push_back({{"y", panel->y.label}, {"series", std::move(series_list)}});
  }
  return json_line(out);
}

}  // namespace sx
