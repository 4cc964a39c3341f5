// What was dropped, and why: one bar per stage, as wide as what entered it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/trace/chart_draw.h"

namespace sx {
namespace {

/// Drop reasons take the hues after blue in their order; blue is what is kept.
constexpr Hue kDropHues[] = {Hue::kOrange, Hue::kRed, Hue::kPurple, Hue::kGreen, Hue::kGrey};
constexpr std::size_t kMaxDrawnDrops = 5;
constexpr double kBarHeight = 26;

std::int64_t dropped_at(const FunnelStage& stage) {
  return std::accumulate(stage.drops.begin(), stage.drops.end(), std::int64_t{0},
                         [](std::int64_t sum, const FunnelDrop& d) { return sum + d.count; });
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// The largest reasons; the rest is one segment "other reasons".
std::vector<FunnelDrop> drawn_drops(const FunnelStage& stage) {
  std::vector<FunnelDrop> drops = stage.drops;
  std::stable_sort(drops.begin(), drops.end(),
                   [](const FunnelDrop& a, const FunnelDrop& b) { return a.count > b.count; });
  while (!drops.empty() && drops.back().count == 0) drops.pop_back();
  if (drops.size() > kMaxDrawnDrops) {
    FunnelDrop other{"other reasons", 0, {}};
    for (std::size_t i = kMaxDrawnDrops - 1; i < drops.size(); ++i) other.count += drops[i].count;
    drops.resize(kMaxDrawnDrops - 1);
    drops.push_back(other);
  }
  return drops;
}

class FunnelPainter {
 public:
  FunnelPainter(const Funnel& chart, int width, const std::string& id)
      : chart_(chart), canvas_(width, id), narrow_(width < kNarrowWidth) {}

  std::string draw() {
    double y = 0;
    std::int64_t entered = chart_.entered;
    for (const FunnelStage& stage : chart_.stages) {
      SX_CHECK(stage.kept + dropped_at(stage) == entered,
               "funnel stage {}: {} entered, {} kept, {} dropped", stage.name, entered, stage.kept,
               dropped_at(stage));
      y = paint_stage(stage, entered, y);
      entered = stage.kept;
    }
    return canvas_.finish(y, chart_class(canvas_.width()), chart_.title, describe());
  }

 private:
  double to_px(std::int64_t count) const {
    return canvas_.width() * share_of(count, chart_.entered);
  }

  double paint_stage(const FunnelStage& stage, std::int64_t entered, double y) {
    const std::string kept =
        fmt::format("{} of {} {} kept ({})", group_thousands(stage.kept), group_thousands(entered),
                    chart_.unit, percent_text(share_of(stage.kept, entered)));
    canvas_.text(0, y + 14, Anchor::kStart,
                 fit_text(stage.name, narrow_ ? canvas_.width() : canvas_.width() * 0.5), "t b");
    if (narrow_) y += 18;
    canvas_.text(narrow_ ? 0 : canvas_.width(), y + 14, narrow_ ? Anchor::kStart : Anchor::kEnd,
                 kept, "t");
    y += 22;
    canvas_.rect(0, y, canvas_.width(), kBarHeight, "track");
    double x = to_px(stage.kept);
    if (x > 0) {
      canvas_.rect_titled(0, y, x, kBarHeight, "bar h0", "kept: " + group_thousands(stage.kept));
      if (x > text_width("kept") + 18) canvas_.chip(x / 2, y + kBarHeight / 2, "kept");
    }
    y = paint_drops(drawn_drops(stage), entered, x, y);
    return y + 14;
  }

  double paint_drops(const std::vector<FunnelDrop>& drops, std::int64_t entered, double x,
                     double y) {
    for (std::size_t i = 0; i < drops.size(); ++i) {
      const double width = std::max(1.5, to_px(drops[i].count));
      const double left = std::min(x, canvas_.width() - 1.5);
      canvas_.rect_titled(
          left, y, width, kBarHeight, "bar drop " + hue_class(kDropHues[i % std::size(kDropHues)]),
          fmt::format("dropped, {}: {}", drops[i].reason, group_thousands(drops[i].count)));
      canvas_.stripes(left, y, width, kBarHeight, 1);
      x += to_px(drops[i].count);
    }
    y += kBarHeight + 6;
    // Labels flow below the bar in its order: the segments are often too small to hold them.
    double at = 0;
    for (std::size_t i = 0; i < drops.size(); ++i) {
      const std::string label =
          fit_text(fmt::format("\u2212{} {} ({})", group_thousands(drops[i].count), drops[i].reason,
                               percent_text(share_of(drops[i].count, entered))),
                   canvas_.width() - 18);
      const double width = 18 + text_width(label);
      if (at > 0 && at + width > canvas_.width()) {
        at = 0;
        y += 20;
      }
      canvas_.rect(at, y + 1, 12, 12, "bar drop " + hue_class(kDropHues[i % std::size(kDropHues)]),
                   2);
      canvas_.stripes(at, y + 1, 12, 12, 1);
      canvas_.text(at + 18, y + 11.5, Anchor::kStart, label, "t");
      at += width + 16;
    }
    return drops.empty() ? y : y + 20;
  }

  std::string describe() const {
    std::string text = fmt::format("{} {} entered. ", group_thousands(chart_.entered), chart_.unit);
    for (const FunnelStage& stage : chart_.stages) {
      text += fmt::format("{}: {} kept", stage.name, group_thousands(stage.kept));
      for (const FunnelDrop& drop : drawn_drops(stage)) {
        text += fmt::format(", {} dropped for {}", group_thousands(drop.count), drop.reason);
      }
      text += ". ";
    }
    text.pop_back();
    return text;
  }

  const Funnel& chart_;
  SvgCanvas canvas_;
  bool narrow_;
};

}  // namespace

std::string draw_funnel(const Funnel& chart, int width, const std::string& id) {
  return FunnelPainter(chart, width, id).draw();
}

}  // namespace sx
