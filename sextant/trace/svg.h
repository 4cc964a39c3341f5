#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sextant/trace/number_text.h"

namespace sx {

/// Charts as data. A chart answers one question: `title` is the question, `how_to_read` half a
/// sentence (may be empty). page.h draws them as static SVG, one drawing for wide windows and one
/// for narrow ones. All text is escaped here.

/// Colours have a meaning that is the same on every page: data blue, parameters blue, gradients
/// orange, optimizer green, activations purple, communication red, idle grey; series without such a
/// meaning take them in this order.
enum class Hue { kBlue, kOrange, kGreen, kPurple, kRed, kGrey };

struct ChartAxis {
  std::string label;                     ///< quantity and unit, once: "loss (nats per token)"
  NumberKind kind = NumberKind::kPlain;  ///< how ticks are written
  bool log = false;                      ///< labelled as such; values <= 0 are left out
  bool from_zero = false;
};

/// A line over x. More points than pixels are drawn as a median line in a min-max band; none is
/// dropped silently.
struct LineSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< ascending x; not finite y = a gap
  Hue hue = Hue::kBlue;
  bool thick = false;
  bool markers = false;
};

/// A line across the chart with its label, to which the value is added ("unigram entropy" becomes
/// "unigram entropy 6.02").
struct ChartRule {
  std::string label;
  double value = 0;
};

struct LineChart {
  std::string title;
  std::string how_to_read;
  ChartAxis x;
  ChartAxis y;
  std::vector<LineSeries> series;  ///< at most six
  std::vector<ChartRule> rules;
  int height = 320;  ///< px
};

/// Panels below each other over the same x axis, which is labelled at the last one.
struct SmallMultiples {
  std::string title;
  std::string how_to_read;
  std::vector<LineChart> panels;
};

struct BarSegment {
  std::string name;
  double value = 0;
  Hue hue = Hue::kBlue;
};
struct BarRow {
  std::string label;  ///< "median step", "rank 3", a language
  std::vector<BarSegment> segments;
};
/// Horizontal bars from zero, one per row; segments are labelled where they fit and always listed
/// with their share.
struct StackedBars {
  std::string title;
  std::string how_to_read;
  NumberKind kind = NumberKind::kSeconds;
  std::string value_label;  ///< label of the axis
  std::vector<BarRow> rows;
};

/// One reason for which a stage dropped items, with up to three examples (text of pages: shown as
/// text, cut at 300 characters).
struct FunnelDrop {
  std::string reason;
  std::int64_t count = 0;
  std::vector<std::string> examples;
};
/// kept + sum of drops = kept of the stage before (contract, checked when drawn).
struct FunnelStage {
  std::string name;
  std::int64_t kept = 0;
  std::vector<FunnelDrop> drops;
};
struct Funnel {
  std::string title;
  std::string how_to_read;
  std::string unit = "items";  ///< "pages", "documents"
  std::int64_t entered = 0;
  std::vector<FunnelStage> stages;
};

struct Histogram {
  std::string title;
  std::string how_to_read;
  ChartAxis x;
  std::vector<double> edges;   ///< n + 1 ascending
  std::vector<double> counts;  ///< n
  std::string count_label = "count";
  std::optional<ChartRule> threshold;  ///< drawn with the share on each side
};

using Chart = std::variant<LineChart, SmallMultiples, StackedBars, Funnel, Histogram>;

/// One <svg> of `width` px. `id` makes its title and description ids unique in the page.
std::string draw_svg(const Chart& chart, int width, const std::string& id);

const std::string& chart_title(const Chart& chart);
/// How to read it, and what the drawing had to do: "Vertical axis does not start at zero. Band:
/// ...".
std::string chart_caption(const Chart& chart);
/// Names with their colours where the narrow drawing has no labels at its lines.
std::vector<std::pair<std::string, Hue>> chart_legend(const Chart& chart);

/// What the pointer shows: the drawn points with exact numbers, as JSON for the page's script;
/// empty when none.
std::string chart_hover_json(const Chart& chart);

/// "&<>\"'" as entities, control characters but tab and newline as U+FFFD, invalid UTF-8 as U+FFFD.
std::string escape_html(std::string_view text);
/// At most `max_chars` code points, with an ellipsis when cut.
std::string cut_text(std::string_view text, std::size_t max_chars);

/// Two to seven round positions (1, 2 or 5 times a power of ten) within [low, high]; on log axes
/// powers of ten.
std::vector<double> round_ticks(double low, double high, int max_ticks = 7);
std::vector<double> log_ticks(double low, double high, int max_ticks = 7);

/// One bucket of a resampled line.
struct Bucket {
  double x = 0;  ///< of the median's place
  double low = 0, median = 0, high = 0;
  std::int64_t count = 0;
};
/// At most `max_buckets` equal parts of the x range; minimum and maximum of every part survive.
/// Non-finite y are left out.
std::vector<Bucket> resample(const std::vector<std::pair<double, double>>& points, int max_buckets);

}  // namespace sx
