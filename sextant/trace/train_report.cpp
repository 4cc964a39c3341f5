#include "sextant/trace/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sextant/trace/json_text.h"

namespace sx {
namespace {

using nlohmann::ordered_json;
using Points = std::vector<std::pair<double, double>>;

/// Ranks whose medians differ by more than this share get a bar each.
constexpr double kRankSpread = 0.05;

struct PhaseLook {
  const char* name;
  Hue hue;
  const char* text;
};

/// In the order of StepPhase; hues by meaning: activations purple, gradients orange, optimizer
/// green, communication red, data blue, idle grey.
constexpr PhaseLook kLooks[kNumStepPhases] = {
    {"data wait", Hue::kBlue, "the loader had no batch ready"},
    {"forward", Hue::kPurple, "from tokens to the loss"},
    {"backward", Hue::kOrange, "from the loss to gradients"},
    {"gradient sync", Hue::kRed,
     "waiting for the sum of gradients over ranks after the last backward"},
    {"clip", Hue::kGreen, "gradient norm and clipping"},
    {"optimizer", Hue::kGreen, "new parameters from gradients and moments"},
    {"bubble", Hue::kGrey, "a pipeline stage with nothing to do"},
    {"exposed communication", Hue::kRed, "waiting for any other collective"},
    {"checkpoint", Hue::kBlue, "saving, as far as training waits for it"},
    {"other", Hue::kGrey, "the rest of the step"},
};

/// Tokens where every row has them, else steps.
std::string_view x_key(const MetricsFile& metrics) {
  const bool all = std::all_of(metrics.rows.begin(), metrics.rows.end(),
                               [](const MetricsRow& row) { return row.has("tokens"); });
  return all && !metrics.rows.empty() ? "tokens" : "step";
}

ChartAxis x_axis(const MetricsFile& metrics) {
  return x_key(metrics) == "tokens"
             ? ChartAxis{"tokens trained on", NumberKind::kCount, false, true}
             : ChartAxis{"optimizer steps", NumberKind::kCount, false, true};
}

std::optional<double> last_value(const MetricsFile& metrics, std::string_view key) {
  for (auto row = metrics.rows.rbegin(); row != metrics.rows.rend(); ++row) {
    if (const auto value = row->get(key)) return value;
  }
  return std::nullopt;
}

std::optional<double> first_value(const MetricsFile& metrics, std::string_view key) {
  for (const MetricsRow& row : metrics.rows) {
    if (const auto value = row.get(key)) return value;
  }
  return std::nullopt;
}

std::optional<double> median_value(const MetricsFile& metrics, std::string_view key) {
  std::vector<double> values;
  for (const MetricsRow& row : metrics.rows) {
    const auto value = row.get(key);
    if (value && std::isfinite(*value)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::vector<PhaseSummary> rank_summaries(const TrainReport& report) {
  std::vector<PhaseSummary> summaries;
  for (const auto& traces : report.ranks) {
    if (!traces.empty()) summaries.push_back(summarize_phases(traces));
  }
  return summaries;
}

const PhaseSummary* slowest(const std::vector<PhaseSummary>& ranks) {
  const auto it = std::max_element(
      ranks.begin(), ranks.end(),
      [](const PhaseSummary& a, const PhaseSummary& b) { return a.duration_us < b.duration_us; });
  return it == ranks.end() ? nullptr : &*it;
}

std::int64_t count_nonfinite(const MetricsFile& metrics) {
  return std::count_if(metrics.rows.begin(), metrics.rows.end(), [](const MetricsRow& row) {
    const auto loss = row.get("loss");
    return loss && !std::isfinite(*loss);
  });
}

LineChart loss_chart(const TrainReport& report) {
  const std::string_view x = x_key(report.metrics);
  LineChart chart;
  chart.x = x_axis(report.metrics);
  chart.y = {"loss (nats per token)", NumberKind::kFixed2};
  chart.height = 340;
  chart.series.push_back({"train", report.metrics.pairs(x, "loss"), Hue::kBlue});
  Points eval = report.metrics.pairs(x, "eval_loss");
  if (!eval.empty()) {
    const bool few = eval.size() <= 40;
    chart.series.push_back({"held-out", std::move(eval), Hue::kOrange, true, few});
  }
  if (report.unigram_entropy) chart.rules.push_back({"unigram entropy", *report.unigram_entropy});
  if (report.bigram_entropy) chart.rules.push_back({"bigram entropy", *report.bigram_entropy});
  return chart;
}

std::optional<LineChart> small_chart(const TrainReport& report, std::string_view key, ChartAxis y,
                                     Hue hue) {
  Points points = report.metrics.pairs(x_key(report.metrics), key);
  if (points.empty()) return std::nullopt;
  LineChart chart;
  chart.x = x_axis(report.metrics);
  chart.y = std::move(y);
  chart.series.push_back({"", std::move(points), hue});
  chart.height = 96;
  return chart;
}

SmallMultiples learning_chart(const TrainReport& report) {
  SmallMultiples chart;
  chart.title = "Does it learn?";
  chart.how_to_read =
      "Lower is better. Dashed lines: what a model reaches that only counts tokens or pairs of "
      "tokens; below them the model uses context.";
  if (!report.unigram_entropy && !report.bigram_entropy) chart.how_to_read = "Lower is better.";
  chart.panels.push_back(loss_chart(report));
  for (auto panel :
       {small_chart(report, "lr", {"learning rate", NumberKind::kPlain, false, true}, Hue::kGreen),
        small_chart(report, "grad_norm", {"gradient norm", NumberKind::kPlain, false, true},
                    Hue::kOrange)}) {
    if (panel) chart.panels.push_back(std::move(*panel));
  }
  return chart;
}

BarRow phase_row(const std::string& label, const PhaseSummary& summary) {
  BarRow row{label, {}};
  for (std::size_t i = 0; i < kNumStepPhases; ++i) {
    if (summary.phases_us[i] > 0) {
      row.segments.push_back({kLooks[i].name, summary.phases_us[i] / 1e6, kLooks[i].hue});
    }
  }
  return row;
}

PageTable phase_table(const PhaseSummary& summary) {
  PageTable table{"Phases of a step",
                  {{"phase"}, {"median, ms", true}, {"of the step", true}, {"means"}},
                  {},
                  {}};
  double sum = 0;
  for (const double us : summary.phases_us) sum += us;
  for (std::size_t i = 0; i < kNumStepPhases; ++i) {
    if (summary.phases_us[i] <= 0) continue;
    table.rows.push_back({kLooks[i].name,
                          {summary.phases_us[i] / 1e3, NumberKind::kPlain},
                          {summary.phases_us[i] / sum, NumberKind::kPercent},
                          kLooks[i].text});
  }
  table.total = {
      "sum of medians", {sum / 1e3, NumberKind::kPlain}, {1.0, NumberKind::kPercent}, ""};
  return table;
}

/// Collectives of one rank, per step: sums over all its steps divided by their number.
std::optional<PageTable> comm_table(const TrainReport& report) {
  if (report.ranks.empty() || report.ranks.front().empty()) return std::nullopt;
  std::map<std::pair<std::string, std::string>, CommCount> sums;
  for (const StepTrace& trace : report.ranks.front()) {
    for (const auto& [axis, ops] : trace.comm) {
      for (const auto& [op, counts] : ops) {
        CommCount& sum = sums[{axis, op}];
        sum.count += counts.count;
        sum.bytes += counts.bytes;
        sum.us += counts.us;
        sum.exposed_us += counts.exposed_us;
      }
    }
  }
  if (sums.empty()) return std::nullopt;
  PageTable table{"Collectives of rank 0, mean per step",
                  {{"axis"},
                   {"operation"},
                   {"calls", true},
                   {"bytes", true},
                   {"time, ms", true},
                   {"waited for, ms", true}},
                  {},
                  {}};
  const auto steps = static_cast<double>(report.ranks.front().size());
  for (const auto& [name, sum] : sums) {
    table.rows.push_back({name.first,
                          name.second,
                          {static_cast<double>(sum.count) / steps, NumberKind::kPlain},
                          {static_cast<double>(sum.bytes) / steps, NumberKind::kBytes},
                          {sum.us / 1e3 / steps, NumberKind::kPlain},
                          {sum.exposed_us / 1e3 / steps, NumberKind::kPlain}});
  }
  return table;
}

void add_time_section(Page& page, const TrainReport& report) {
  const auto ranks = rank_summaries(report);
  auto rate = small_chart(report, "tokens_per_s",
                          {"tokens per second", NumberKind::kRate, false, true}, Hue::kBlue);
  if (ranks.empty() && !rate) return;
  Page::Section& section = page.section("Time");
  if (const PhaseSummary* worst = slowest(ranks)) {
    StackedBars bars;
    bars.title = "Where does a step's time go?";
    bars.how_to_read =
        ranks.size() > 1 ? "Median of each phase, slowest rank." : "Median of each phase.";
    bars.value_label = "time";
    bars.rows.push_back(phase_row("median step", *worst));
    section.add(bars);
    const auto fastest = std::min_element(
        ranks.begin(), ranks.end(),
        [](const PhaseSummary& a, const PhaseSummary& b) { return a.duration_us < b.duration_us; });
    if (worst->duration_us > fastest->duration_us * (1 + kRankSpread)) {
      StackedBars strip = bars;
      strip.title = "Do ranks differ?";
      strip.how_to_read = "Median of each phase by rank; longer bars hold the others up.";
      strip.rows.clear();
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        strip.rows.push_back(phase_row(fmt::format("rank {}", i), ranks[i]));
      }
      section.add(strip);
    }
    section.add(phase_table(*worst));
  }
  if (rate) {
    rate->title = "How fast?";
    rate->height = 160;
    section.add(std::move(*rate));
  }
  if (auto comm = comm_table(report)) section.add(std::move(*comm));
}

std::optional<PageTable> eval_table(const TrainReport& report) {
  PageTable table{"Loss at each evaluation",
                  {{"step", true},
                   {"tokens", true},
                   {"train loss", true},
                   {"held-out loss", true},
                   {"held-out perplexity", true}},
                  {},
                  {}};
  for (const MetricsRow& row : report.metrics.rows) {
    const auto eval = row.get("eval_loss");
    if (!eval) continue;
    const auto cell = [&](std::string_view key, NumberKind kind) {
      const auto value = row.get(key);
      return value ? TableCell(*value, kind) : TableCell("");
    };
    table.rows.push_back({cell("step", NumberKind::kCount),
                          cell("tokens", NumberKind::kCount),
                          cell("loss", NumberKind::kFixed3),
                          {*eval, NumberKind::kFixed3},
                          {std::exp(*eval), NumberKind::kPlain}});
  }
  if (table.rows.empty()) return std::nullopt;
  return table;
}

void add_figures(Page& page, const TrainReport& report, const ordered_json& data) {
  if (data.contains("held_out_loss")) {
    std::string than;
    if (report.unigram_entropy) {
      than = "against unigram entropy " + number_text(*report.unigram_entropy, NumberKind::kFixed2);
      if (report.bigram_entropy) {
        than += " and bigram entropy " + number_text(*report.bigram_entropy, NumberKind::kFixed2);
      }
    } else {
      than = "perplexity " + three_digits(data["held_out_ppl"].get<double>());
    }
    page.figure({"held-out loss", "/held_out_loss", NumberKind::kFixed2, "nats", than});
  }
  if (data.contains("last_loss")) {
    page.figure({"training loss", "/last_loss", NumberKind::kFixed2, "nats",
                 "at the last step; " +
                     number_text(*number_of(data["first_loss"]), NumberKind::kFixed2) +
                     " at the first"});
  }
  if (data.contains("tokens")) {
    page.figure({"tokens trained on", "/tokens", NumberKind::kCount, "",
                 fmt::format("in {} steps", group_thousands(data["steps"].get<std::int64_t>()))});
  }
  if (data.contains("tokens_per_s")) {
    const std::string per_step =
        data.contains("step_s") ? "median; a step takes " + seconds_text(*number_of(data["step_s"]))
                                : "median";
    page.figure({"speed", "/tokens_per_s", NumberKind::kRate, "tokens/s", per_step});
  }
  if (data.contains("params")) {
    page.figure({"parameters", "/params", NumberKind::kCount, "",
                 report.tokens_per_step > 0
                     ? count_text(static_cast<double>(report.tokens_per_step)) + " tokens per step"
                     : ""});
  }
}

void add_warnings(Page& page, const TrainReport& report, const ordered_json& data) {
  for (const PageWarning& warning : report.warnings) page.warn(warning);
  if (const std::int64_t count = count_nonfinite(report.metrics); count > 0) {
    page.warn({fmt::format("{} logged step{} had a loss that is not finite", count,
                           count == 1 ? "" : "s"),
               "the learning rate is too high, or a value overflowed", ""});
  }
  if (data.contains("held_out_loss") && report.unigram_entropy &&
      *number_of(data["held_out_loss"]) >= *report.unigram_entropy) {
    page.warn(
        {"The model is no better than counting tokens",
         "its held-out loss is not below the unigram entropy; it was trained too short, or on "
         "other text",
         ""});
  }
  std::int64_t unexplained = 0;
  for (const auto& traces : report.ranks) {
    unexplained += std::count_if(traces.begin(), traces.end(),
                                 [](const StepTrace& t) { return !t.phases_add_up(); });
  }
  if (unexplained > 0) {
    page.warn({fmt::format("The phases of {} steps do not add up to the step", unexplained),
               "time was counted twice or not at all: a defect of the measurement", ""});
  }
  if (report.metrics.torn) {
    page.warn({"The last line of metrics.jsonl is torn",
               "the run was stopped while it wrote; the line is left out", ""});
  }
}

void add_end_matter(Page& page, const TrainReport& report) {
  for (const auto& [key, value] : report.settings) page.setting(key, value);
  page.term("loss",
            "mean over tokens of the negative logarithm of the probability the model gave to "
            "the token that came, in nats");
  page.term("held-out", "pages that were kept from training");
  if (report.unigram_entropy) {
    page.term("unigram entropy",
              "loss of the best model that knows only how often each token occurs");
  }
  if (report.bigram_entropy) {
    page.term(
        "bigram entropy",
        "loss of a model that counts pairs of neighbouring tokens in the training text, mixed "
        "with single counts");
  }
  page.term("gradient norm", "L2 norm over all parameters before clipping");
  if (!report.metrics.resumes.empty()) {
    std::string steps;
    for (const std::int64_t step : report.metrics.resumes) {
      steps += (steps.empty() ? "" : ", ") + std::to_string(step);
    }
    page.limit("The run was resumed at step " + steps +
               "; where a step ran twice, its last values are shown.");
  }
  page.limit("Times are wall times of this machine under its load at that time.");
}

}  // namespace

ordered_json train_summary(const TrainReport& report) {
  const MetricsFile& metrics = report.metrics;
  ordered_json out;
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) out[key] = *value;
  };
  const auto put_count = [&](const char* key, const std::optional<double>& value) {
    if (value) out[key] = static_cast<std::int64_t>(*value);
  };
  out["steps"] = metrics.rows.empty() ? 0 : metrics.rows.back().step();
  put_count("tokens", last_value(metrics, "tokens"));
  if (report.tokens_per_step > 0) out["tokens_per_step"] = report.tokens_per_step;
  if (report.num_params > 0) out["params"] = report.num_params;
  put("first_loss", first_value(metrics, "loss"));
  put("last_loss", last_value(metrics, "loss"));
  const auto held_out = last_value(metrics, "eval_loss");
  put("held_out_loss", held_out);
  if (held_out) out["held_out_ppl"] = std::exp(*held_out);
  put("unigram_entropy", report.unigram_entropy);
  put("bigram_entropy", report.bigram_entropy);
  put("tokens_per_s", median_value(metrics, "tokens_per_s"));
  put("step_s", median_value(metrics, "step_s"));
  put_count("mem_peak_bytes", last_value(metrics, "mem_peak_bytes"));
  const auto ranks = rank_summaries(report);
  if (const PhaseSummary* worst = slowest(ranks)) {
    ordered_json& phases = out["phase_s"] = ordered_json::object();
    for (std::size_t i = 0; i < kNumStepPhases; ++i) {
      phases[to_string(static_cast<StepPhase>(i))] = worst->phases_us[i] / 1e6;
    }
  }
  out["nonfinite_steps"] = count_nonfinite(metrics);
  out["resumes"] = metrics.resumes;
  if (report.extra.is_object()) {
    for (const auto& [key, value] : report.extra.items()) out[key] = value;
  }
  return out;
}

Page make_train_page(const TrainReport& report) {
  const ordered_json data = train_summary(report);
  Page page(report.facts, data);
  add_figures(page, report, data);
  add_warnings(page, report, data);
  page.section("Learning").add(learning_chart(report));
  add_time_section(page, report);
  if (!report.sample_text.empty()) {
    page.section("A sample")
        .add(PageQuote{report.sample_prompt.empty() ? "Written by the model"
                                                    : "Prompt: " + report.sample_prompt,
                       report.sample_text});
  }
  if (auto table = eval_table(report)) page.section("Evaluations").add(std::move(*table));
  add_end_matter(page, report);
  for (const auto& [path, text] : report.files) page.file(path, text);
  return page;
}

}  // namespace sx
