#include "sextant/crawl/crawl_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "sextant/text/utf8.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

Json dropped_json(const StepCounters& step) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kNumReasons; ++i) {
    if (step.dropped[i] > 0) out[to_string(static_cast<Reason>(i))] = step.dropped[i];
  }
  return out;
}

template <class Map>
Json map_json(const Map& map) {
  Json out = Json::object();
  for (const auto& [name, count] : map) out[name] = count;
  return out;
}

/// Entries by falling count, names as second order.
std::vector<std::pair<std::string, std::int64_t>> by_count(const Json& map) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const auto& [name, count] : map.items()) out.emplace_back(name, count.get<std::int64_t>());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

std::string example_text(const Json& example) {
  std::string text = example.value("url", "");
  const std::string value = example.value("value", "");
  const std::string snippet = example.value("snippet", "");
  if (!value.empty()) text += (text.empty() ? "" : " — ") + value;
  if (!snippet.empty()) text += (text.empty() ? "" : ": ") + snippet;
  return text;
}

Funnel funnel_of(const Json& summary, const Json& examples) {
  Funnel funnel;
  funnel.title = "What was dropped, and why?";
  funnel.how_to_read =
      "each bar is what a stage kept, the labelled parts beside it are what it dropped";
  funnel.unit = "records";
  funnel.entered = summary.at("records").get<std::int64_t>();
  for (const Json& stage : summary.at("stages")) {
    FunnelStage out;
    out.name = stage.at("name").get<std::string>();
    out.kept = stage.at("kept").get<std::int64_t>();
    for (const auto& [reason, count] : by_count(stage.at("dropped"))) {
      FunnelDrop drop{reason, count, {}};
      if (examples.contains(reason)) {
        for (const Json& example : examples.at(reason))
          drop.examples.push_back(example_text(example));
      }
      out.drops.push_back(std::move(drop));
    }
    funnel.stages.push_back(std::move(out));
  }
  return funnel;
}

PageTable reason_table(const Json& summary) {
  PageTable table;
  table.caption = "What the reasons mean";
  table.columns = {{"reason", false}, {"meaning", false}, {"most frequent values", false}};
  for (const auto& [reason, count] : by_count(summary.at("dropped"))) {
    std::string values;
    std::size_t shown = 0;
    if (summary.at("dropped_values").contains(reason)) {
      for (const auto& [value, times] : by_count(summary.at("dropped_values").at(reason))) {
        if (++shown > 5) break;
        values += fmt::format("{}{} ({})", values.empty() ? "" : ", ", value, times);
      }
    }
    const char* text = "";
    for (std::size_t i = 0; i < kNumReasons; ++i) {
      if (reason == to_string(static_cast<Reason>(i))) text = meaning(static_cast<Reason>(i));
    }
    table.rows.push_back({reason, text, values});
  }
  return table;
}

PageTable count_table(const std::string& caption, const std::string& name, const Json& map) {
  PageTable table;
  table.caption = caption;
  table.columns = {{name, false}, {"documents", true}};
  double total = 0;
  for (const auto& [key, count] : by_count(map)) {
    table.rows.push_back({key, TableCell(static_cast<double>(count), NumberKind::kCount)});
    total += static_cast<double>(count);
    if (table.rows.size() == 200) break;
  }
  table.total = {"all", TableCell(total, NumberKind::kCount)};
  return table;
}

PageTable file_table(const Json& files) {
  PageTable table;
  table.caption = "Input files";
  table.columns = {
      {"file", false}, {"size", true}, {"records", true}, {"damaged", true}, {"documents", true}};
  for (const Json& file : files) {
    if (table.rows.size() == 500) break;
    table.rows.push_back({file.at("path").get<std::string>(),
                          TableCell(file.at("bytes").get<double>(), NumberKind::kBytes),
                          TableCell(file.at("records").get<double>(), NumberKind::kCount),
                          TableCell(file.at("damaged").get<double>(), NumberKind::kCount),
                          TableCell(file.at("documents").get<double>(), NumberKind::kCount)});
  }
  return table;
}

Histogram length_histogram(const Json& counts) {
  Histogram histogram;
  histogram.title = "How long are the documents?";
  histogram.how_to_read = "bytes of UTF-8 text, each bar twice as far as the one before";
  histogram.x = {.label = "text length (bytes)", .kind = NumberKind::kBytes, .log = true};
  histogram.count_label = "documents";
  double edge = 1;
  histogram.edges.push_back(edge);
  for (const Json& count : counts) {
    edge *= 2;
    histogram.edges.push_back(edge);
    histogram.counts.push_back(count.get<double>());
  }
  return histogram;
}

StackedBars stage_time(const Json& summary) {
  static constexpr Hue kHues[] = {Hue::kBlue,   Hue::kOrange, Hue::kGreen,
                                  Hue::kPurple, Hue::kRed,    Hue::kGrey};
  StackedBars bars;
  bars.title = "Where does the time go?";
  bars.how_to_read =
      "seconds of all threads together, reading and unpacking of archives not included";
  bars.kind = NumberKind::kSeconds;
  bars.value_label = "seconds";
  BarRow row;
  row.label = "all stages";
  std::size_t index = 0;
  for (const Json& stage : summary.at("stages")) {
    if (stage.at("name") == "dedup") continue;  // timed together with write
    row.segments.push_back({stage.at("name").get<std::string>(), stage.at("seconds").get<double>(),
                            kHues[index++ % 6]});
  }
  bars.rows.push_back(std::move(row));
  return bars;
}

}  // namespace

Json crawl_summary_json(const CrawlSummary& s) {
  Json out;
  out["records"] = s.records();
  out["damaged"] = s.damaged();
  out["bad_share"] = s.bad_share();
  out["pages"] = s.steps[2].docs_in;
  out["documents"] = s.documents();
  out["kept_share"] = s.steps[2].docs_in == 0 ? 0.0
                                              : static_cast<double>(s.documents()) /
                                                    static_cast<double>(s.steps[2].docs_in);
  StepCounters all;
  for (const StepCounters& step : s.steps) all.add(step);
  out["dropped"] = dropped_json(all);
  out["dropped_values"] = Json::object();
  for (std::size_t i = 0; i < kNumReasons; ++i) {
    if (!s.values[i].empty())
      out["dropped_values"][to_string(static_cast<Reason>(i))] = map_json(s.values[i]);
  }
  out["stages"] = Json::array();
  for (std::size_t i = 0; i < kNumSteps; ++i) {
    out["stages"].push_back({{"name", step_names()[i]},
                             {"in", s.steps[i].docs_in},
                             {"kept", s.steps[i].kept},
                             {"dropped", dropped_json(s.steps[i])},
                             {"seconds", s.steps[i].seconds}});
  }
  out["languages"] = map_json(s.languages);
  out["charsets"] = map_json(s.charsets);
  out["text_bytes"] = s.total_text_bytes;
  out["text_length_log2"] = s.text_bytes;
  out["replaced"] = s.replaced;
  out["truncated"] = s.truncated;
  out["files"] = Json::array();
  for (const CrawlFileSummary& file : s.files) {
    out["files"].push_back({{"path", file.path},
                            {"bytes", file.bytes},
                            {"records", file.records},
                            {"damaged", file.damaged},
                            {"documents", file.documents},
                            {"record_bytes", file.record_bytes},
                            {"gap_bytes", file.gap_bytes},
                            {"trailing_bytes", file.trailing_bytes}});
  }
  out["outputs"] = Json::array();
  for (const DocumentWriter::Shard& shard : s.shards) {
    out["outputs"].push_back(
        {{"file", shard.name}, {"documents", shard.documents}, {"line_bytes", shard.text_bytes}});
  }
  if (s.near.documents > 0) {
    out["near_duplicates"] = {{"documents", s.near.documents},
                              {"clusters", s.near.clusters},
                              {"dropped", s.near.dropped},
                              {"pairs_compared", s.near.candidates},
                              {"pairs_alike", s.near.verified},
                              {"leader_caps", s.near.leader_caps}};
  }
  out["bytes_in"] = s.bytes();
  out["seconds"] = s.seconds;
  out["pages_per_s"] = s.seconds > 0 ? static_cast<double>(s.steps[2].docs_in) / s.seconds : 0.0;
  out["mb_per_s"] = s.seconds > 0 ? static_cast<double>(s.bytes()) / 1e6 / s.seconds : 0.0;
  out["conservation"] = "holds";
  return out;
}

Json crawl_examples_json(const CrawlSummary& s) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kNumReasons; ++i) {
    for (const DropExample& example : s.examples[i]) {
      std::uint64_t replaced = 0;  // a snippet is cut without regard to characters
      out[to_string(static_cast<Reason>(i))].push_back(
          {{"url", repair_utf8(example.url, replaced)},
           {"value", repair_utf8(example.value, replaced)},
           {"snippet", repair_utf8(example.snippet, replaced)}});
    }
  }
  return out;
}

Page make_crawl_page(const PageFacts& facts, const Json& summary, const Json& examples) {
  Page page(facts, summary);
  const auto number = [&](const char* key) { return summary.at(key).get<double>(); };
  page.figure({"documents kept", "/documents", NumberKind::kCount, "",
               fmt::format("of {} pages, {}", count_text(number("pages")),
                           percent_text(number("kept_share")))});
  page.figure({"records read", "/records", NumberKind::kCount, "",
               fmt::format("documents + drops by reason = records: {}",
                           summary.value("conservation", "not checked"))});
  page.figure({"text", "/text_bytes", NumberKind::kBytes, "",
               fmt::format("from {} of archives", bytes_text(number("bytes_in")))});
  page.figure({"damaged records", "/damaged", NumberKind::kCount, "",
               fmt::format("{} of records", percent_text(number("bad_share")))});
  if (number("seconds") > 0) {
    page.figure(
        {"speed", "/mb_per_s", NumberKind::kPlain, "MB/s",
         fmt::format("of stored archive, {} pages/s", three_digits(number("pages_per_s")))});
  }
  if (number("damaged") > 0) {
    page.warn({fmt::format("{} places of the archives are damaged", count_text(number("damaged"))),
               "bytes that are no record were passed over; the records behind them were read",
               "sextant crawl inspect FILE"});
  }
  if (number("documents") == 0) {
    page.warn({"no document was kept", "every record was dropped for a reason below",
               "sextant crawl inspect FILE"});
  }
  page.section("What was dropped?")
      .add(Chart(funnel_of(summary, examples)))
      .add(reason_table(summary));
  Page::Section& kept = page.section("What was kept?");
  if (!summary.at("text_length_log2").empty())
    kept.add(Chart(length_histogram(summary.at("text_length_log2"))));
  kept.add(count_table("Documents by declared language", "language", summary.at("languages")));
  kept.add(count_table("Documents by character encoding", "encoding", summary.at("charsets")));
  if (number("seconds") > 0) page.section("How fast?").add(Chart(stage_time(summary)));
  page.section("Inputs").add(file_table(summary.at("files")));
  for (const Json& output : summary.at("outputs")) {
    page.file(output.at("file").get<std::string>(),
              fmt::format("{} documents, one JSON object a line",
                          output.at("documents").get<std::uint64_t>()));
  }
  page.file("summary.json", "the figures of this page");
  page.file("examples.json", "three examples of each reason");
  page.term("record", "one entry of a WARC archive: a response, a request, facts about the crawl");
  page.term("page",
            "a response of a selected status and media type that reached character decoding");
  page.term("declared language",
            "primary subtag of the page's lang attribute; und when there is none");
  page.limit("Character encodings other than UTF-8 and windows-1252 are counted, not decoded.");
  page.limit("Languages are what pages declare, not what was detected.");
  return page;
}

}  // namespace sx
