#include "sextant/trace/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sextant/base/check.h"
#include "sextant/trace/chart_draw.h"
#include "sextant/trace/ticks.h"

namespace sx {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Escaping, EverythingThatCouldBeMarkup) {
  EXPECT_EQ(escape_html("<a href=\"x\" id='y'>&"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
  EXPECT_EQ(escape_html("tab\tline\n"), "tab\tline\n");
  EXPECT_EQ(escape_html(std::string_view("\0\x1b\x7f", 3)), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escape_html("\xC2\x85"), "\uFFFD");                  // C1 control
  EXPECT_EQ(escape_html("\u202eabc\u2069"), "\uFFFDabc\uFFFD");  // would turn the text around
  EXPECT_EQ(escape_html("\xff\xc0\xaf\xed\xa0\x80\xf5"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escape_html("\xe4\xbd"), "\uFFFD\uFFFD");  // cut sequence
  EXPECT_EQ(escape_html("你好 😀"), "你好 😀");
}

TEST(Escaping, CutsAtCodePoints) {
  EXPECT_EQ(cut_text("äöü", 3), "äöü");
  EXPECT_EQ(cut_text("äöüß", 3), "äö…");
  EXPECT_EQ(cut_text("", 0), "");
  EXPECT_EQ(cut_text(std::string(1000, 'x'), 300).size(), 299 + 3);
}

TEST(Ticks, AreRoundAndAtMostSeven) {
  EXPECT_EQ(round_ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(3.5, 9.2), (std::vector<double>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(round_ticks(5, 5), (std::vector<double>{5}));
  std::uint64_t state = 7;
  for (int i = 0; i < 3000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double low = static_cast<double>(static_cast<std::int64_t>(state >> 20)) * 1e-6 - 4e6;
    const double span = std::exp(static_cast<double>(state >> 40 & 63) / 2 - 20);
    const auto ticks = round_ticks(low, low + span * std::max(1.0, std::fabs(low)));
    ASSERT_GE(ticks.size(), 2u) << low << " + " << span;
    ASSERT_LE(ticks.size(), 7u);
    const double step = ticks[1] - ticks[0];
    const double lead = step / std::pow(10, std::floor(std::log10(step) + 1e-6));
    EXPECT_TRUE(std::fabs(lead - 1) < 1e-3 || std::fabs(lead - 2) < 1e-3 ||
                std::fabs(lead - 5) < 1e-3 || std::fabs(lead - 10) < 1e-3)
        << step;
  }
}

TEST(Ticks, LogAxesTakePowersOfTen) {
  const auto ticks = log_ticks(3e-4, 2e3);
  EXPECT_LE(ticks.size(), 7u);
  for (const double tick : ticks) {
    EXPECT_NEAR(std::log10(tick), std::round(std::log10(tick)), 1e-9);
  }
  EXPECT_LE(log_ticks(1e-30, 1e30).size(), 7u);
  EXPECT_EQ(log_ticks(2, 3), (std::vector<double>{2}));
}

TEST(Ticks, UnitStandsOnceInTheLabel) {
  const AxisScale tokens = make_scale({"tokens", NumberKind::kCount, false, true}, 0, 2.4e6, 7);
  EXPECT_EQ(tokens.label, "tokens (M)");
  EXPECT_EQ(tokens.labels, (std::vector<std::string>{"0.0", "0.5", "1.0", "1.5", "2.0"}));
  const AxisScale lr = make_scale({"learning rate"}, 0, 3e-4, 7);
  EXPECT_EQ(lr.label, "learning rate (×10⁻⁴)");
  const AxisScale time = make_scale({"time", NumberKind::kSeconds, false, true}, 0, 0.127, 7);
  EXPECT_EQ(time.label, "time (ms)");
  const AxisScale steps = make_scale({"steps", NumberKind::kCount}, 1, 3, 7);
  EXPECT_EQ(steps.labels, (std::vector<std::string>{"1", "2", "3"}));  // no half steps
  EXPECT_EQ(make_scale({"loss", NumberKind::kFixed2, true}, 0.1, 100, 7).label, "loss, log scale");
  EXPECT_EQ(steps.place(2, 100, 200), 150);
}

TEST(Resample, KeepsMinimumAndMaximumOfEveryPart) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, std::sin(i * 0.01));
  points[77'777].second = 50;
  points[33'333].second = -40;
  points[500].second = std::nan("");
  const auto buckets = resample(points, 400);
  EXPECT_LE(buckets.size(), 400u);
  double low = 0, high = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& bucket = buckets[i];
    EXPECT_LE(bucket.low, bucket.median);
    EXPECT_LE(bucket.median, bucket.high);
    if (i > 0) {
      EXPECT_LT(buckets[i - 1].x, bucket.x);
    }
    low = std::min(low, bucket.low);
    high = std::max(high, bucket.high);
    count += bucket.count;
  }
  EXPECT_EQ(low, -40);
  EXPECT_EQ(high, 50);
  EXPECT_EQ(count, 99'999);
}

TEST(Resample, FewPointsStayAsTheyAre) {
  const auto buckets = resample({{1, 5}, {2, 6}}, 10);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[1].x, 2);
  EXPECT_EQ(buckets[1].median, 6);
  EXPECT_TRUE(resample({}, 10).empty());
  EXPECT_EQ(resample({{3, 1}, {3, 2}, {3, 3}}, 2).size(), 1u);  // no span
}

LineChart small_line_chart() {
  LineChart chart;
  chart.title = "Does <it> learn?";
  chart.x = {"tokens", NumberKind::kCount, false, true};
  chart.y = {"loss", NumberKind::kFixed2};
  chart.series = {{"train", {{0, 9}, {1000, std::nan("")}, {2000, 5}, {3000, 4}}}};
  chart.rules = {{"unigram entropy", 6.02}};
  return chart;
}

TEST(Charts, LineHasTitleDescriptionLabelsAndGap) {
  const std::string svg = draw_svg(small_line_chart(), 1100, "c");
  EXPECT_EQ(svg.rfind("<svg class=\"chart wide\" viewBox=\"0 0 1100 ", 0), 0u);
  EXPECT_NE(svg.find("<title id=\"c-t\">Does &lt;it&gt; learn?</title>"), std::string::npos);
  EXPECT_NE(
      svg.find("<desc id=\"c-d\">loss, train: from 9.00 to 4.00, 4 points. Rule unigram entropy "
               "6.02.</desc>"),
      std::string::npos);
  EXPECT_NE(svg.find(">train 4.00<"), std::string::npos);
  EXPECT_NE(svg.find(">unigram entropy 6.02<"), std::string::npos);
  const auto path = svg.find("class=\"line\" d=\"");
  EXPECT_EQ(count_of(svg.substr(path, svg.find("/>", path) - path), "M"),
            2u);  // the pen is lifted once
  EXPECT_EQ(chart_caption(small_line_chart()),
            "The vertical axis does not start at zero. 1 value is not finite and left out.");
  EXPECT_EQ(chart_hover_json(small_line_chart()),
            R"({"x":"tokens","panels":[{"y":"loss","series":[{"name":"train",)"
            R"("points":[[0,9],[2000,5],[3000,4]]}]}]})");
}

TEST(Charts, EveryKindDrawsEmptyInput) {
  for (const int width : kChartWidths) {
    EXPECT_NE(draw_svg(LineChart{}, width, "a").find("no data"), std::string::npos);
    EXPECT_NE(draw_svg(SmallMultiples{}, width, "a").find("</svg>"), std::string::npos);
    EXPECT_NE(draw_svg(StackedBars{}, width, "a").find("</svg>"), std::string::npos);
    EXPECT_NE(draw_svg(Funnel{}, width, "a").find("</svg>"), std::string::npos);
    Histogram histogram;
    histogram.edges = {0, 1};
    histogram.counts = {0};
    EXPECT_NE(draw_svg(histogram, width, "a").find("</svg>"), std::string::npos);
  }
}

TEST(Charts, FunnelMustConserve) {
  Funnel funnel{
      "t", "", "pages", 10, {{"read", 7, {{"broken", 3, {}}}}, {"filter", 5, {{"short", 2, {}}}}}};
  const std::string svg = draw_svg(funnel, 720, "f");
  EXPECT_NE(svg.find("7 of 10 pages kept (70\u00a0%)"), std::string::npos);
  EXPECT_NE(svg.find("\u22122 short (28.6\u00a0%)"), std::string::npos);
  funnel.stages[1].kept = 6;
  EXPECT_THROW(draw_svg(funnel, 720, "f"), ContractError);
}

TEST(Charts, HistogramSharesABarThatTheThresholdCuts) {
  Histogram histogram;
  histogram.title = "h";
  histogram.edges = {0, 1, 2};
  histogram.counts = {10, 30};
  histogram.threshold = ChartRule{"limit", 0.5};
  EXPECT_NE(draw_svg(histogram, 720, "h").find("limit 0.5: 12.5\u00a0% below, 87.5\u00a0% above."),
            std::string::npos);
}

TEST(Charts, SegmentsOfOneHueAreToldApart) {
  StackedBars bars;
  bars.title = "b";
  bars.rows = {{"step", {{"clip", 1, Hue::kGreen}, {"optimizer", 2, Hue::kGreen}}}};
  const std::string svg = draw_svg(bars, 720, "b");
  EXPECT_EQ(count_of(svg, "<pattern "), 1u);
  EXPECT_EQ(count_of(svg, "url(#b-p1)"), 2u);  // bar and legend
}

}  // namespace
}  // namespace sx
