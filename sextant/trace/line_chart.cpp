// Lines over a common x axis: one panel, or several below each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sextant/trace/chart_draw.h"
#include "sextant/trace/ticks.h"

namespace sx {
namespace {

constexpr double kLabelGap = 15;   ///< least distance of labels below each other
constexpr double kTopMargin = 30;  ///< y label
constexpr double kPanelGap = 14;
constexpr double kBottomMargin = 46;  ///< tick labels and x label

struct Frame {
  double left = 0, top = 0, width = 0, height = 0;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value, bool log) {
    if (!std::isfinite(value) || (log && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

Range x_range(const std::vector<LineChart>& panels) {
  Range range;
  for (const LineChart& panel : panels) {
    for (const LineSeries& series : panel.series) {
      for (const auto& point : series.points) range.add(point.first, panel.x.log);
    }
  }
  if (range.empty()) range = {0, 1};
  return range;
}

Range y_range(const LineChart& panel) {
  Range range;
  for (const LineSeries& series : panel.series) {
    for (const auto& point : series.points) range.add(point.second, panel.y.log);
  }
  for (const ChartRule& rule : panel.rules) range.add(rule.value, panel.y.log);
  if (range.empty()) return panel.y.log ? Range{0.1, 1} : Range{0, 1};
  if (!panel.y.log) {
    const double margin = (range.high - range.low) * 0.05;
    range.high += margin;
    if (!panel.y.from_zero) range.low -= margin;
  }
  return range;
}

/// Text at the right of the plot: end of a line, or a rule.
struct EndLabel {
  std::string name, number;
  std::string css;  ///< of the short stroke before it
  double wanted_y = 0, y = 0;
  double from_x = 0;

  /// The name is cut where there is too little room, never the number.
  std::string fitted(double room) const {
    if (name.empty()) return number;
    return fit_text(name, std::max(20.0, room - text_width(" " + number))) + " " + number;
  }
};

std::string named_value(const std::string& name, double value, NumberKind kind) {
  const std::string number = number_text(value, kind);
  return name.empty() ? number : name + " " + number;
}

std::string series_class(const LineSeries& series) {
  return "series " + hue_class(series.hue) + (series.thick ? " thick" : "");
}

const std::pair<double, double>* last_finite(const LineSeries& series) {
  for (auto it = series.points.rbegin(); it != series.points.rend(); ++it) {
    if (std::isfinite(it->first) && std::isfinite(it->second)) return &*it;
  }
  return nullptr;
}

double end_label_width(const LineChart& panel) {
  double width = 0;
  for (const LineSeries& series : panel.series) {
    if (const auto* last = last_finite(series)) {
      width = std::max(width, text_width(named_value(series.name, last->second, panel.y.kind)));
    }
  }
  for (const ChartRule& rule : panel.rules) {
    width = std::max(width, text_width(named_value(rule.label, rule.value, panel.y.kind)));
  }
  return width;
}

/// Moves labels apart: first down, then up from the lower border.
void spread(std::vector<EndLabel>& labels, double top, double bottom) {
  std::sort(labels.begin(), labels.end(),
            [](const EndLabel& a, const EndLabel& b) { return a.wanted_y < b.wanted_y; });
  double next = top;
  for (EndLabel& label : labels) {
    label.y = std::max(label.wanted_y, next);
    next = label.y + kLabelGap;
  }
  double limit = bottom;
  for (auto it = labels.rbegin(); it != labels.rend(); ++it) {
    it->y = std::min(it->y, limit);
    limit = it->y - kLabelGap;
  }
}

/// A path along the points; a gap in the data lifts the pen.
class PathText {
 public:
  void point(double x, double y) {
    text_ += fmt::format("{}{},{}", pen_down_ ? (text_.back() == 'M' ? "" : "L") : "M", px_text(x),
                         px_text(y));
    pen_down_ = true;
  }
  void lift() { pen_down_ = false; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool pen_down_ = false;
};

class PanelPainter {
 public:
  PanelPainter(SvgCanvas& canvas, const LineChart& panel, const AxisScale& x, const Frame& frame,
               bool narrow)
      : canvas_(canvas), panel_(panel), x_(x), frame_(frame), narrow_(narrow) {
    const Range range = y_range(panel);
    y_ = make_scale(panel.y, range.low, range.high, frame.height < 160 ? 4 : 7);
  }

  void paint() {
    axes();
    for (const ChartRule& rule : panel_.rules) {
      const double y = to_y(rule.value);
      canvas_.line(frame_.left, y, frame_.right(), y, "rule");
      add_label(rule.label, rule.value, "rule", y, frame_.right());
    }
    canvas_.open_group("panel", panel_attributes());
    for (std::size_t i = 0; i < panel_.series.size(); ++i) series(panel_.series[i], i);
    canvas_.close_group();
    narrow_ ? rule_labels_inside() : end_labels();
  }

 private:
  double to_x(double value) const { return x_.place(value, frame_.left, frame_.right()); }
  double to_y(double value) const { return y_.place(value, frame_.bottom(), frame_.top); }
  bool drawable(double x, double y) const {
    return std::isfinite(x) && std::isfinite(y) && !(x_.log && x <= 0) && !(y_.log && y <= 0);
  }

  std::string panel_attributes() const {
    return fmt::format("data-frame=\"{},{},{},{}\" data-x=\"{},{},{}\" data-y=\"{},{},{}\"",
                       px_text(frame_.left), px_text(frame_.top), px_text(frame_.width),
                       px_text(frame_.height), x_.low, x_.high, x_.log ? 1 : 0, y_.low, y_.high,
                       y_.log ? 1 : 0);
  }

  void axes() {
    canvas_.text(2, frame_.top - 12, Anchor::kStart, fit_text(y_.label, canvas_.width() - 4),
                 "t axis");
    for (std::size_t i = 0; i < y_.ticks.size(); ++i) {
      const double y = to_y(y_.ticks[i]);
      canvas_.line(frame_.left, y, frame_.right(), y, "grid");
      canvas_.text(frame_.left - 8, y + 4, Anchor::kEnd, y_.labels[i], "t m");
    }
    canvas_.line(frame_.left, frame_.bottom(), frame_.right(), frame_.bottom(), "base");
  }

  void series(const LineSeries& series, std::size_t number) {
    canvas_.open_group(series_class(series), fmt::format("data-series=\"{}\"", number));
    const int max_buckets = max_buckets_at(canvas_.width());
    std::int64_t drawn = 0;
    if (series.points.size() > static_cast<std::size_t>(max_buckets)) {
      drawn = banded(resample(series.points, max_buckets));
    } else {
      PathText path;
      for (const auto& [x, y] : series.points) {
        if (!drawable(x, y)) {
          path.lift();
          continue;
        }
        path.point(to_x(x), to_y(y));
        ++drawn;
      }
      if (drawn > 0) canvas_.path(path.text(), "line");
    }
    if (series.markers || drawn == 1) {
      for (const auto& [x, y] : series.points) {
        if (drawable(x, y)) canvas_.circle(to_x(x), to_y(y), 3, "dot");
      }
    }
    canvas_.close_group();
    const auto* last = last_finite(series);
    if (last && drawable(last->first, last->second)) {
      add_label(series.name, last->second, series_class(series), to_y(last->second),
                to_x(last->first));
    }
  }

  std::int64_t banded(const std::vector<Bucket>& buckets) {
    PathText line;
    std::string outline;  // along the upper border, and back along the lower
    std::vector<const Bucket*> drawn;
    for (const Bucket& bucket : buckets) {
      if (!drawable(bucket.x, bucket.low)) {
        line.lift();
        continue;
      }
      line.point(to_x(bucket.x), to_y(bucket.median));
      outline += fmt::format("{}{},{}", drawn.empty() ? "M" : "L", px_text(to_x(bucket.x)),
                             px_text(to_y(bucket.high)));
      drawn.push_back(&bucket);
    }
    if (drawn.empty()) return 0;
    for (auto it = drawn.rbegin(); it != drawn.rend(); ++it) {
      outline += fmt::format("L{},{}", px_text(to_x((*it)->x)), px_text(to_y((*it)->low)));
    }
    outline += 'Z';
    canvas_.path(outline, "band");
    canvas_.path(line.text(), "line");
    return static_cast<std::int64_t>(drawn.size());
  }

  void add_label(const std::string& name, double value, const std::string& css, double y,
                 double from_x) {
    EndLabel label;
    label.name = name;
    label.number = number_text(value, panel_.y.kind);
    label.css = css;
    label.wanted_y = y;
    label.from_x = from_x;
    labels_.push_back(std::move(label));
  }

  void end_labels() {
    spread(labels_, frame_.top + 4, frame_.bottom() - 2);
    const double room = canvas_.width() - frame_.right() - 24;
    for (const EndLabel& label : labels_) {
      const double x = frame_.right() + 4;
      canvas_.open_group(label.css);
      // A stroke in the line's colour leads from its end to the label.
      canvas_.path(fmt::format("M{},{}L{},{}", px_text(x), px_text(label.wanted_y), px_text(x + 14),
                               px_text(label.y)),
                   "lead");
      canvas_.close_group();
      canvas_.text(x + 18, label.y + 4, Anchor::kStart, label.fitted(room), "t");
    }
  }

  /// Without a margin for labels: rules carry theirs on the line, series stand in the legend.
  void rule_labels_inside() {
    for (const EndLabel& label : labels_) {
      if (label.css != "rule") continue;
      const double x = frame_.right() - 4;
      canvas_.try_text(x, label.wanted_y - 5, Anchor::kEnd, label.fitted(frame_.width), "t halo") ||
          canvas_.try_text(x, label.wanted_y + 14, Anchor::kEnd, label.fitted(frame_.width),
                           "t halo") ||
          canvas_.try_text(frame_.left + 4, label.wanted_y - 5, Anchor::kStart,
                           label.fitted(frame_.width), "t halo") ||
          canvas_.try_text(frame_.left + 4, label.wanted_y + 14, Anchor::kStart,
                           label.fitted(frame_.width), "t halo");
    }
  }

  SvgCanvas& canvas_;
  const LineChart& panel_;
  const AxisScale& x_;
  Frame frame_;
  bool narrow_;
  AxisScale y_;
  std::vector<EndLabel> labels_;
};

void paint_x_axis(SvgCanvas& canvas, const AxisScale& x, const Frame& frame) {
  double free_from = 0;
  for (std::size_t i = 0; i < x.ticks.size(); ++i) {
    const double at = x.place(x.ticks[i], frame.left, frame.right());
    canvas.line(at, frame.bottom(), at, frame.bottom() + 5, "base");
    const double width = text_width(x.labels[i]);
    const double left = std::clamp(at - width / 2, 0.0, canvas.width() - width);
    if (left < free_from) continue;
    canvas.text(left, frame.bottom() + 19, Anchor::kStart, x.labels[i], "t m");
    free_from = left + width + 8;
  }
  canvas.text(frame.right(), frame.bottom() + 37, Anchor::kEnd, x.label, "t axis");
}

/// What a screen reader says in place of the lines.
std::string describe(const std::vector<LineChart>& panels) {
  std::string text;
  for (const LineChart& panel : panels) {
    for (const LineSeries& series : panel.series) {
      const auto first = std::find_if(series.points.begin(), series.points.end(),
                                      [](auto& p) { return std::isfinite(p.second); });
      const auto* last = last_finite(series);
      if (first == series.points.end() || !last) continue;
      text += fmt::format("{}, {}: from {} to {}, {} points. ", panel.y.label,
                          series.name.empty() ? "line" : series.name,
                          number_text(first->second, panel.y.kind),
                          number_text(last->second, panel.y.kind), series.points.size());
    }
    for (const ChartRule& rule : panel.rules) {
      text += fmt::format("Rule {}. ", named_value(rule.label, rule.value, panel.y.kind));
    }
  }
  if (text.empty()) return "No data.";
  text.pop_back();
  return text;
}

std::string draw_panels(const std::vector<LineChart>& panels, const std::string& title, int width,
                        const std::string& id) {
  const bool narrow = width < kNarrowWidth;
  SvgCanvas canvas(width, id);
  const Range xs = x_range(panels);
  const ChartAxis x_axis = panels.empty() ? ChartAxis{} : panels.front().x;
  const AxisScale x = make_scale(x_axis, xs.low, xs.high, narrow ? 5 : 7);

  double left = 0, right = narrow ? 12 : 0;
  for (const LineChart& panel : panels) {
    const Range range = y_range(panel);
    const AxisScale y = make_scale(panel.y, range.low, range.high, panel.height < 160 ? 4 : 7);
    for (const std::string& label : y.labels) left = std::max(left, text_width(label) + 12);
    if (!narrow) right = std::max(right, std::min(width * 0.32, end_label_width(panel) + 26));
  }
  Frame frame{left, 0, width - left - right, 0};
  double y = 0;
  for (std::size_t i = 0; i < panels.size(); ++i) {
    frame.top = y + kTopMargin;
    frame.height = panels[i].height;
    PanelPainter(canvas, panels[i], x, frame, narrow).paint();
    y = frame.bottom() + kPanelGap;
  }
  paint_x_axis(canvas, x, frame);
  if (xs.high == 1 && xs.low == 0 && describe(panels) == "No data.") {
    canvas.text(frame.left + frame.width / 2, frame.top + frame.height / 2, Anchor::kMiddle,
                "no data", "t m");
  }
  return canvas.finish(frame.bottom() + kBottomMargin, chart_class(width), title, describe(panels));
}

}  // namespace

int max_buckets_at(int width) { return width < kNarrowWidth ? 150 : 400; }

std::string chart_class(int width) {
  if (width < kNarrowWidth) return "chart narrow";
  return width < 900 ? "chart mid" : "chart wide";
}

std::string hue_class(Hue hue) { return fmt::format("h{}", static_cast<int>(hue)); }

std::string draw_line_chart(const LineChart& chart, int width, const std::string& id) {
  return draw_panels({chart}, chart.title, width, id);
}

std::string draw_small_multiples(const SmallMultiples& chart, int width, const std::string& id) {
  return draw_panels(chart.panels, chart.title, width, id);
}

}  // namespace sx
