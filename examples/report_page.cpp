// Writes a report page of every kind from made-up figures: what sx_trace's pages and charts look
// like, and how they are called. The page test opens what this program writes.
//
//   report_page DIR        writes DIR/train.html, crawl.html, demo.html, long.html, charts.html
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/version.h"
#include "sextant/trace/demo_report.h"
#include "sextant/trace/page.h"
#include "sextant/trace/train_report.h"

namespace {

using nlohmann::ordered_json;

/// Noise in [-1, 1] that is the same everywhere.
double noise(std::uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((n ^ (n >> 31)) >> 11) / 4503599627370496.0 - 1.0;
}

sx::PageFacts facts(const std::string& title, const std::string& subject,
                    const std::string& command) {
  sx::PageFacts out;
  out.title = title;
  out.subject = subject;
  out.when_utc = "2026-11-30 05:12 UTC";
  out.seconds = 96.4;
  out.hardware = "made-up figures; no machine measured them";
  out.version = sx::version().version;
  out.command = command;
  return out;
}

double learning_rate(double step, double steps) {
  const double warmup = 0.05 * steps;
  if (step < warmup) return 3e-3 * step / warmup;
  const double share = (step - warmup) / (steps - warmup);
  return 3e-4 + (3e-3 - 3e-4) * 0.5 * (1 + std::cos(3.14159265358979 * share));
}

sx::StepTrace step_trace(std::int64_t step, double slow) {
  sx::StepTrace trace;
  trace.step = step;
  trace.first_step = step == 1;
  const double us = (step == 1 ? 210e3 : 118e3) * slow * (1 + 0.04 * noise(77 * step));
  trace.phase_us(sx::StepPhase::kDataWait) = 0.004 * us;
  trace.phase_us(sx::StepPhase::kForward) = 0.29 * us;
  trace.phase_us(sx::StepPhase::kBackward) = 0.57 * us;
  trace.phase_us(sx::StepPhase::kGradSync) = 0.055 * us;
  trace.phase_us(sx::StepPhase::kClip) = 0.018 * us;
  trace.phase_us(sx::StepPhase::kOptimizer) = 0.052 * us;
  trace.phase_us(sx::StepPhase::kCkpt) = 0.006 * us;
  trace.phase_us(sx::StepPhase::kOther) = 0.005 * us;
  trace.duration_us = trace.phases_sum_us();
  trace.comm["dp_replicate"]["all_reduce"] = {6, 14 << 20, 0.09 * us, 0.055 * us};
  trace.comm["dp_replicate"]["broadcast"] = {1, 4096, 40, 40};
  trace.tokens = 2048;
  trace.host_rss_bytes = 702 << 20;
  return trace;
}

sx::TrainReport train_report(std::int64_t steps, std::int64_t eval_every) {
  sx::TrainReport report;
  report.facts = facts("Training run", "tiny, 3.4 M parameters, 2 thread ranks, demo pages",
                       "sextant train --preset tiny --set data.paths=runs/demo/tokens/train "
                       "--set parallelism.dp_replicate=2 --out runs/demo/train");
  report.num_params = 3'412'736;
  report.tokens_per_step = 4096;
  report.unigram_entropy = 6.02;
  report.bigram_entropy = 4.11;
  report.settings = {{"parallelism.dp_replicate", "2"},
                     {"training.seq_len", "256"},
                     {"data.paths", "[\"runs/demo/tokens/train\"]"}};
  report.files = {{"metrics.jsonl", "one line per logged step"},
                  {"recipe.resolved.toml", "every key with its source"},
                  {"trace/rank-00000.jsonl", "phases and collectives of each step"}};
  report.sample_prompt = "The database server";
  report.sample_text =
      "The database server is started with the name of the table, and the user can be used to\n"
      "set the value of a column. If the file is not found, the package is installed by the\n"
      "system administrator.";
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto n = static_cast<std::uint64_t>(step);
    const double at = 600.0 * static_cast<double>(step) / static_cast<double>(steps);
    const double loss = 3.55 + 4.6 * std::exp(-at / 60) + 1.0 / (1 + at / 30);
    sx::MetricsRow row(step);
    row.set_count("tokens", step * report.tokens_per_step);
    row.set("loss", loss + 0.09 * noise(n));
    row.set("lr", learning_rate(static_cast<double>(step), static_cast<double>(steps)));
    row.set("grad_norm", 0.4 + 3 * std::exp(-at / 20) + 0.1 * std::fabs(noise(3 * n + 1)));
    row.set("step_s", 0.118 * (1 + 0.04 * noise(77 * n)));
    row.set("tokens_per_s", 34'600 * (1 + 0.04 * noise(5 * n)) * (step < 3 ? 0.6 : 1));
    if (step % eval_every == 0) row.set("eval_loss", loss + 0.12);
    report.metrics.rows.push_back(row);
  }
  return report;
}

sx::Funnel crawl_funnel() {
  sx::Funnel funnel;
  funnel.title = "What was kept, what dropped, why?";
  funnel.how_to_read = "One bar per stage, as wide as what entered it.";
  funnel.unit = "pages";
  funnel.entered = 2380;
  funnel.stages = {
      {"read records",
       2361,
       {{"not HTML", 17, {"https://pages.example/style.css", "https://pages.example/logo.png"}},
        {"truncated", 2, {"https://pages.example/half.html"}}}},
      {"decode",
       2349,
       {{"unknown charset", 12, {"charset=x-mac-\"><img src=x onerror=alert(1)>"}}}},
      {"extract text", 2297, {{"no text", 49, {"<title>Index of /</title>"}}, {"too deep", 3, {}}}},
      {"filters",
       2140,
       {{"too short", 96, {"Next  Prev  Up  Home", "404", "Table of contents"}},
        {"few letters", 22, {"0x00 0x01 0x02 0x03 0x04"}},
        {"repeated lines", 18, {}},
        {"few stop words", 12, {}},
        {"long words", 6, {}},
        {"many symbols", 3, {}}}},
  };
  return funnel;
}

/// Titles as pages of the open web have them: markup, scripts, direction marks, broken UTF-8, and
/// no end.
std::vector<std::string> hostile_texts() {
  using namespace std::string_literals;
  return {"</script><script>document.title='owned'</script>",
          "</title></style></svg><img src=\"https://evil.example/x.png\" onerror=\"alert(1)\">",
          "\"' onmouseover='alert(1)' x=\"",
          "<!--<script>",
          "&lt;b&gt; &amp;amp; &#x3c;script&#x3e;",
          "]]><iframe src=javascript:alert(1)></iframe>",
          "control \x01\x02\x1b[31m and nul \0 inside"s,
          "broken \xff\xc3( utf-8 \xed\xa0\x80",
          "\u202eright-to-left override\u202c and \u2066isolate",
          std::string(5000, 'W'),
          "\u4f60\u597d\uff0c\u4e16\u754c \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
          "{{constructor.constructor('alert(1)')()}} ${alert(1)} `x`"};
}

sx::Page crawl_page() {
  const sx::Funnel funnel = crawl_funnel();
  ordered_json data = {{"pages", 2380}, {"documents", 2140}, {"mb_per_s", 21.4}, {"seconds", 6.1}};
  data["titles"] = ordered_json::array();
  sx::Page page(facts("Crawl", "3 archives <b>from</b> pages.example & others",
                      "sextant crawl run --out runs/demo/crawl 'runs/demo/warc/*.warc.gz'"),
                data);
  page.figure({"documents kept", "/documents", sx::NumberKind::kCount, "", "of 2\u2009380 pages"});
  page.figure({"reading speed", "/mb_per_s", sx::NumberKind::kPlain, "MB/s", "one core"});
  page.figure({"time", "/seconds", sx::NumberKind::kSeconds, "", ""});
  page.warn({"2 records were truncated", "the capture ended early: <script>alert(1)</script>",
             "sextant crawl inspect runs/demo/warc/books.warc.gz --at 1048576"});
  page.section("Funnel").add(funnel);

  sx::Histogram histogram;
  histogram.title = "Is the length threshold right?";
  histogram.how_to_read = "Words per page; pages left of the rule are dropped as too short.";
  histogram.x = {"words, base-10 logarithm", sx::NumberKind::kPlain};
  for (int i = 0; i <= 40; ++i) histogram.edges.push_back(i * 0.1);
  for (int i = 0; i < 40; ++i) {
    const double x = (i - 26) / 6.0;
    histogram.counts.push_back(
        std::round(210 * std::exp(-x * x) + 14 * std::exp(-(i - 9) * (i - 9) / 8.0)));
  }
  histogram.count_label = "pages";
  histogram.threshold = sx::ChartRule{"threshold", 1.3};
  page.section("Length").add(histogram);

  sx::PageTable titles{"Titles as pages give them", {{"title"}, {"words", true}}, {}, {}};
  std::int64_t sum = 0;
  for (const std::string& text : hostile_texts()) {
    const auto words = static_cast<std::int64_t>(17 * text.size() % 991);
    sum += words;
    titles.rows.push_back({text, {static_cast<double>(words), sx::NumberKind::kCount}});
  }
  titles.total = {"all", {static_cast<double>(sum), sx::NumberKind::kCount}};
  page.section("Titles").add(titles);
  page.file("documents-00000.jsonl.zst", "the documents");
  page.limit("Languages are taken from the page's own declaration.");
  return page;
}

ordered_json demo_summary() {
  return {{"records", 2380},
          {"records", 4760},
          {"pages", 2380},
          {"documents", 2140},
          {"dropped",
           {{"request or metadata", 2380},
            {"not HTML", 17},
            {"unknown charset", 14},
            {"no text", 52},
            {"too short", 157}}},
          {"languages", {{"en", 1204}, {"de", 388}, {"fr", 301}, {"ja", 164}, {"pt-BR", 83}}},
          {"tokens", 2'914'332},
          {"vocab_size", 8192},
          {"first_loss", 9.02},
          {"last_loss", 3.71},
          {"held_out_loss", 3.83},
          {"unigram_entropy", 6.02},
          {"bigram_entropy", 4.11},
          {"tokens_per_s", 34612.5},
          {"stages",
           {{{"name", "capture"}, {"seconds", 9.1}},
            {{"name", "crawl"}, {"seconds", 6.1}},
            {{"name", "tokenizer"}, {"seconds", 11.9}},
            {{"name", "pack"}, {"seconds", 2.2}},
            {{"name", "train"}, {"seconds", 71.4}},
            {{"name", "evaluate"}, {"seconds", 3.3}},
            {{"name", "sample"}, {"seconds", 1.4}}}},
          {"sample_prompt", "The database server"},
          {"sample", "The database server is started with the name of the table."}};
}

/// Every chart in an unusual state: no data, one point, gaps, log axes, equal values, many close
/// labels.
sx::Page charts_page() {
  sx::Page page(facts("Charts", "unusual input", "report_page DIR"), {{"charts", 7}});
  page.figure({"charts", "/charts", sx::NumberKind::kCount, "", ""});
  sx::Page::Section& section = page.section("Charts");
  sx::LineChart empty;
  empty.title = "No data?";
  empty.y.label = "loss";
  section.add(empty);

  sx::LineChart one;
  one.title = "One point";
  one.x = {"tokens", sx::NumberKind::kCount};
  one.y = {"loss", sx::NumberKind::kFixed2};
  one.series = {{"held-out", {{4096, 5.5}}, sx::Hue::kOrange, true}};
  section.add(one);

  sx::LineChart close;
  close.title = "Labels that lie together";
  close.x = {"memory", sx::NumberKind::kBytes};
  close.y = {"time", sx::NumberKind::kSeconds, true};
  for (int s = 0; s < 6; ++s) {
    sx::LineSeries series;
    series.name = "variant " + std::to_string(s + 1) + " with a rather long name";
    series.hue = static_cast<sx::Hue>(s);
    for (int i = 1; i <= 30; ++i) {
      const double y = i == 12 && s == 2 ? std::nan("") : 1e-4 * i * i * (1 + 0.02 * s);
      series.points.emplace_back(i * 3e8, y);
    }
    close.series.push_back(series);
  }
  close.rules = {{"limit", 0.08}, {"goal", 0.0805}};
  section.add(close);

  sx::LineChart flat;
  flat.title = "Equal values";
  flat.x = {"step", sx::NumberKind::kCount};
  flat.y = {"learning rate", sx::NumberKind::kPlain};
  flat.series = {{"lr", {{1, 3e-4}, {2, 3e-4}, {3, 3e-4}}, sx::Hue::kGreen}};
  section.add(flat);

  sx::StackedBars bars;
  bars.title = "Many segments";
  bars.value_label = "bytes";
  bars.kind = sx::NumberKind::kBytes;
  for (int r = 0; r < 3; ++r) {
    sx::BarRow row{
        "rank " + std::to_string(r) + (r == 2 ? " on a host with a long name.example" : ""), {}};
    for (int i = 0; i < 8; ++i) {
      row.segments.push_back({"kind " + std::to_string(i), std::pow(2.1, i) * 1e6 * (1 + r),
                              static_cast<sx::Hue>(i % 6)});
    }
    bars.rows.push_back(row);
  }
  section.add(bars);

  sx::Funnel nothing{"Nothing entered", "", "pages", 0, {{"read", 0, {}}}};
  section.add(nothing);

  sx::PageTable table{
      "A long table, folded", {{"name"}, {"value", true}, {"size", true}, {"share", true}}, {}, {}};
  for (int i = 0; i < 45; ++i) {
    table.rows.push_back({"row " + std::to_string(i),
                          {noise(i) * 1000, sx::NumberKind::kPlain},
                          {std::pow(3.0, i % 20), sx::NumberKind::kBytes},
                          {i / 44.0, sx::NumberKind::kPercent}});
  }
  section.add(table);
  return page;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: report_page DIR\n");
    return 2;
  }
  const sx::fs::path folder = argv[1];
  if (!sx::make_dirs(folder)) return 3;

  sx::TrainReport train = train_report(600, 50);
  for (const double slow : {1.0, 1.08}) {
    train.ranks.emplace_back();
    for (std::int64_t step = 1; step <= 600; ++step)
      train.ranks.back().push_back(step_trace(step, slow));
  }
  train.metrics.resumes = {240};
  const std::vector<sx::DemoLink> links = {{"crawl.html", "what was read, kept and dropped"},
                                           {"train.html", "loss, speed, phases of a step"}};
  const std::vector<std::pair<const char*, sx::Page>> pages = [&] {
    std::vector<std::pair<const char*, sx::Page>> out;
    out.emplace_back("train.html", sx::make_train_page(train));
    out.emplace_back("crawl.html", crawl_page());
    out.emplace_back(
        "demo.html",
        sx::make_demo_page(facts("Demo", "from HTML pages to a language model", "./sx demo"),
                           demo_summary(), links));
    out.emplace_back("long.html", sx::make_train_page(train_report(200'000, 5'000)));
    out.emplace_back("charts.html", charts_page());
    return out;
  }();
  for (const auto& [name, page] : pages) {
    if (auto written = page.write(folder / name); !written) {
      std::fprintf(stderr, "%s\n", written.error().to_string().c_str());
      return 3;
    }
    std::printf("%s\n", (folder / name).c_str());
  }
  return 0;
}
