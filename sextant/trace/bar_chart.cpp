// Bars from zero: stacked horizontal bars, and histograms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/trace/chart_draw.h"
#include "sextant/trace/ticks.h"

namespace sx {
namespace {

double total_of(const BarRow& row) {
  return std::accumulate(row.segments.begin(), row.segments.end(), 0.0,
                         [](double sum, const BarSegment& s) { return sum + s.value; });
}

/// Names in order of first appearance; names that share a hue are told apart by stripes.
struct BarKey {
  std::string name;
  Hue hue = Hue::kBlue;
  int pattern = 0;
  double sum = 0;
};

bool one_segment_each(const StackedBars& chart) {
  return std::all_of(chart.rows.begin(), chart.rows.end(),
                     [](const BarRow& row) { return row.segments.size() <= 1; });
}

std::vector<BarKey> bar_keys(const StackedBars& chart) {
  std::vector<BarKey> keys;
  for (const BarRow& row : chart.rows) {
    for (const BarSegment& segment : row.segments) {
      auto it = std::find_if(keys.begin(), keys.end(),
                             [&](const BarKey& key) { return key.name == segment.name; });
      if (it == keys.end()) {
        const auto same = std::count_if(keys.begin(), keys.end(),
                                        [&](const BarKey& key) { return key.hue == segment.hue; });
        const bool alone = one_segment_each(chart);
        keys.push_back({segment.name, segment.hue, alone ? 0 : static_cast<int>(same % 3), 0});
        it = std::prev(keys.end());
      }
      it->sum += segment.value;
    }
  }
  return keys;
}

class BarPainter {
 public:
  BarPainter(const StackedBars& chart, int width, const std::string& id)
      : chart_(chart), canvas_(width, id), narrow_(width < kNarrowWidth), keys_(bar_keys(chart)) {
    double largest = 0;
    for (const BarRow& row : chart.rows) {
      largest = std::max(largest, total_of(row));
      label_width_ = std::max(label_width_, text_width(row.label));
      total_width_ = std::max(total_width_, text_width(number_text(total_of(row), chart.kind)));
    }
    label_width_ = narrow_ ? 0 : std::min(label_width_ + 12, width * 0.3);
    ChartAxis axis{chart.value_label, chart.kind, false, true};
    scale_ = make_scale(axis, 0, largest > 0 ? largest : 1, narrow_ ? 5 : 7);
    left_ = label_width_;
    right_ = width - total_width_ - 12;
  }

  std::string draw() {
    double y = 4;
    paint_axis(y, y + static_cast<double>(chart_.rows.size()) * row_height());
    for (const BarRow& row : chart_.rows) y = paint_row(row, y);
    y += 46;
    if (!one_segment_each(chart_)) y = paint_legend(y);
    return canvas_.finish(y, chart_class(canvas_.width()), chart_.title, describe());
  }

 private:
  double bar_height() const { return chart_.rows.size() == 1 ? 40 : 22; }
  double row_height() const { return bar_height() + (narrow_ ? 28 : 8); }
  double to_x(double value) const { return scale_.place(value, left_, right_); }

  /// Draws one row and returns where the next begins.
  double paint_row(const BarRow& row, double y) {
    if (narrow_) {
      canvas_.text(0, y + 12, Anchor::kStart, fit_text(row.label, canvas_.width()), "t");
      y += 18;
    } else {
      canvas_.text(left_ - 12, y + bar_height() / 2 + 4, Anchor::kEnd,
                   fit_text(row.label, label_width_ - 12), "t");
    }
    const double total = total_of(row);
    double sum = 0;
    for (const BarSegment& segment : row.segments) {
      SX_CHECK(std::isfinite(segment.value) && segment.value >= 0, "bar segment {} = {}",
               segment.name, segment.value);
      const double from = to_x(sum), to = to_x(sum + segment.value);
      sum += segment.value;
      paint_segment(segment, from, to, y, total);
    }
    canvas_.text(to_x(total) + 6, y + bar_height() / 2 + 4, Anchor::kStart,
                 number_text(total, chart_.kind), "t");
    return y + bar_height() + (narrow_ ? 10 : 8);
  }

  void paint_segment(const BarSegment& segment, double from, double to, double y, double total) {
    if (!(to > from)) return;
    const auto key = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const BarKey& k) { return k.name == segment.name; });
    const double gap = to - from > 3 ? 1 : 0;
    const std::string share = percent_text(total > 0 ? segment.value / total : 0);
    canvas_.rect_titled(
        from, y, to - from - gap, bar_height(), "bar " + hue_class(segment.hue),
        fmt::format("{}: {} ({})", segment.name, number_text(segment.value, chart_.kind), share));
    canvas_.stripes(from, y, to - from - gap, bar_height(), key->pattern);
    if (one_segment_each(chart_)) return;
    for (const std::string& label : {segment.name + " " + share, segment.name, share}) {
      if (text_width(label) + 18 <= to - from) {
        canvas_.chip((from + to - gap) / 2, y + bar_height() / 2, label);
        return;
      }
    }
  }

  void paint_axis(double top, double bottom) {
    for (std::size_t i = 0; i < scale_.ticks.size(); ++i) {
      const double x = to_x(scale_.ticks[i]);
      if (i > 0 && !narrow_) canvas_.line(x, top, x, bottom, "grid");
      canvas_.line(x, bottom, x, bottom + 5, "base");
      const double half = text_width(scale_.labels[i]) / 2;
      canvas_.try_text(std::max(x, half), bottom + 19, Anchor::kMiddle, scale_.labels[i], "t m");
    }
    canvas_.line(left_, bottom, right_, bottom, "base");
    canvas_.line(left_, top, left_, bottom, "base");
    canvas_.text(right_, bottom + 37, Anchor::kEnd, scale_.label, "t axis");
  }

  /// Every segment with its value and share; in columns, so that small segments are found too.
  double paint_legend(double y) {
    double grand_total = 0;
    for (const BarKey& key : keys_) grand_total += key.sum;
    const double rows = static_cast<double>(chart_.rows.size());
    std::vector<std::string> items;
    double widest = 0;
    for (const BarKey& key : keys_) {
      items.push_back(fmt::format("{} {} ({})", key.name, number_text(key.sum / rows, chart_.kind),
                                  percent_text(grand_total > 0 ? key.sum / grand_total : 0)));
      widest = std::max(widest, text_width(items.back()) + 40);
    }
    const int columns = std::max(1, static_cast<int>(canvas_.width() / widest));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const double x = static_cast<double>(i % static_cast<std::size_t>(columns)) * widest;
      const double at = y + 20 * std::floor(static_cast<double>(i) / columns);
      canvas_.rect(x, at, 12, 12, "bar " + hue_class(keys_[i].hue), 2);
      canvas_.stripes(x, at, 12, 12, keys_[i].pattern);
      canvas_.text(x + 18, at + 10.5, Anchor::kStart, fit_text(items[i], canvas_.width() - 18),
                   "t");
    }
    return y + 20 * std::ceil(static_cast<double>(items.size()) / columns) + 4;
  }

  std::string describe() const {
    std::string text;
    for (const BarRow& row : chart_.rows) {
      text += fmt::format("{} {}", row.label, number_text(total_of(row), chart_.kind));
      if (!one_segment_each(chart_)) {
        for (const BarSegment& segment : row.segments) {
          text += fmt::format(", {} {}", segment.name, number_text(segment.value, chart_.kind));
        }
      }
      text += ". ";
    }
    if (text.empty()) return "No data.";
    text.pop_back();
    return text;
  }

  const StackedBars& chart_;
  SvgCanvas canvas_;
  bool narrow_;
  std::vector<BarKey> keys_;
  AxisScale scale_;
  double label_width_ = 0, total_width_ = 0, left_ = 0, right_ = 0;
};

}  // namespace

std::string draw_stacked_bars(const StackedBars& chart, int width, const std::string& id) {
  return BarPainter(chart, width, id).draw();
}

std::string draw_histogram(const Histogram& chart, int width, const std::string& id) {
  SX_CHECK(chart.edges.size() == chart.counts.size() + 1 && !chart.counts.empty(),
           "histogram of {} counts with {} edges", chart.counts.size(), chart.edges.size());
  const bool narrow = width < kNarrowWidth;
  constexpr double kHeight = 240, kTop = 60;
  SvgCanvas canvas(width, id);
  const double largest = *std::max_element(chart.counts.begin(), chart.counts.end());
  const AxisScale y = make_scale({chart.count_label, NumberKind::kCount, false, true}, 0,
                                 largest > 0 ? largest * 1.05 : 1, 5);
  ChartAxis x_axis = chart.x;
  x_axis.from_zero = false;
  const AxisScale x = make_scale(x_axis, chart.edges.front(), chart.edges.back(), narrow ? 5 : 7);
  double left = 0;
  for (const std::string& label : y.labels) left = std::max(left, text_width(label) + 12);
  const double right = width - 12.0, bottom = kTop + kHeight;

  canvas.text(2, 12, Anchor::kStart, y.label, "t axis");
  for (std::size_t i = 0; i < y.ticks.size(); ++i) {
    const double at = y.place(y.ticks[i], bottom, kTop);
    canvas.line(left, at, right, at, "grid");
    canvas.text(left - 8, at + 4, Anchor::kEnd, y.labels[i], "t m");
  }
  double below = 0, all = 0;
  for (std::size_t i = 0; i < chart.counts.size(); ++i) {
    const double from = x.place(chart.edges[i], left, right);
    const double to = x.place(chart.edges[i + 1], left, right);
    const double top = y.place(chart.counts[i], bottom, kTop);
    if (chart.counts[i] > 0) {
      canvas.rect_titled(
          from + 0.5, top, std::max(0.5, to - from - 1), bottom - top, "bar h0",
          fmt::format("{} to {}: {}", number_text(chart.edges[i], chart.x.kind),
                      number_text(chart.edges[i + 1], chart.x.kind), count_text(chart.counts[i])));
    }
    all += chart.counts[i];
    if (chart.threshold) {
      // A bar that the threshold cuts is shared in proportion.
      const double share = std::clamp(
          (chart.threshold->value - chart.edges[i]) / (chart.edges[i + 1] - chart.edges[i]), 0.0,
          1.0);
      below += chart.counts[i] * share;
    }
  }
  canvas.line(left, bottom, right, bottom, "base");
  for (std::size_t i = 0; i < x.ticks.size(); ++i) {
    const double at = x.place(x.ticks[i], left, right);
    canvas.line(at, bottom, at, bottom + 5, "base");
    const double half = text_width(x.labels[i]) / 2;
    canvas.try_text(std::clamp(at, half, width - half), bottom + 19, Anchor::kMiddle, x.labels[i],
                    "t m");
  }
  canvas.text(right, bottom + 37, Anchor::kEnd, x.label, "t axis");
  std::string description = fmt::format("{} in {} bars.", count_text(all), chart.counts.size());
  if (chart.threshold && all > 0) {
    const double at = std::clamp(x.place(chart.threshold->value, left, right), left, right);
    canvas.line(at, kTop - 4, at, bottom, "rule");
    const std::string name =
        chart.threshold->label + " " + number_text(chart.threshold->value, chart.x.kind);
    const std::string before = "\u2190 " + percent_text(below / all);
    const std::string after = percent_text(1 - below / all) + " \u2192";
    const double name_half = text_width(name) / 2;
    canvas.try_text(std::clamp(at, left + name_half, right - name_half), 30, Anchor::kMiddle, name,
                    "t b");
    canvas.try_text(at - 6, 48, Anchor::kEnd, before, "t");
    canvas.try_text(at + 6, 48, Anchor::kStart, after, "t");
    description += fmt::format(" {}: {} below, {} above.", name, percent_text(below / all),
                               percent_text(1 - below / all));
  }
  return canvas.finish(bottom + 46, chart_class(width), chart.title, description);
}

}  // namespace sx
