#include "sextant/trace/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sextant/trace/json_text.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxLanguages = 12;

std::optional<double> number_at(const ordered_json& summary, const char* key) {
  const auto it = summary.find(key);
  if (it == summary.end()) return std::nullopt;
  auto number = number_of(*it);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return *number;
}

std::string text_at(const ordered_json& summary, const char* key) {
  const auto it = summary.find(key);
  return it != summary.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// Name and number of each member of an object, or of each {name, seconds} of a list.
std::vector<std::pair<std::string, double>> pairs_at(const ordered_json& summary, const char* key) {
  std::vector<std::pair<std::string, double>> pairs;
  const auto it = summary.find(key);
  if (it == summary.end()) return pairs;
  const auto take = [&](const std::string& name, const ordered_json& value) {
    if (auto number = number_of(value); number && *number >= 0) pairs.emplace_back(name, *number);
  };
  if (it->is_object()) {
    for (const auto& [name, value] : it->items()) take(name, value);
  } else if (it->is_array()) {
    for (const auto& item : *it) {
      if (item.is_object() && item.contains("name") && item["name"].is_string() &&
          item.contains("seconds")) {
        take(item["name"].get<std::string>(), item["seconds"]);
      }
    }
  }
  return pairs;
}

std::vector<std::pair<std::string, double>> stages_of(const ordered_json& summary) {
  auto stages = pairs_at(summary, "stages");
  return stages.empty() ? pairs_at(summary, "stage_seconds") : stages;
}

void add_figures(Page& page, const ordered_json& summary) {
  const auto value = [&](const char* key) { return number_at(summary, key); };
  if (value("documents")) {
    const auto pages = value("pages");
    page.figure({"documents kept", "/documents", NumberKind::kCount, "",
                 pages ? "of " + count_text(*pages) + " pages" : ""});
  }
  if (value("tokens")) {
    const auto vocab = value("vocab_size");
    page.figure({"tokens", "/tokens", NumberKind::kCount, "",
                 vocab ? "vocabulary of " + count_text(*vocab) : ""});
  }
  if (value("held_out_loss")) {
    const auto unigram = value("unigram_entropy");
    page.figure(
        {"held-out loss", "/held_out_loss", NumberKind::kFixed2, "nats",
         unigram ? "against unigram entropy " + number_text(*unigram, NumberKind::kFixed2) : ""});
  }
  if (value("tokens_per_s")) {
    page.figure({"training speed", "/tokens_per_s", NumberKind::kRate, "tokens/s", ""});
  }
}

void add_learning(Page& page, const ordered_json& summary) {
  StackedBars bars;
  bars.title = "Is the model better than counting?";
  bars.how_to_read =
      "Nats per token on held-out pages, less is better. A model that knows nothing pays the "
      "logarithm of the vocabulary, counting tokens costs the unigram entropy, counting pairs the "
      "bigram entropy.";
  bars.kind = NumberKind::kFixed2;
  bars.value_label = "nats per token";
  const auto row = [&](const char* name, std::optional<double> value, Hue hue) {
    if (value && *value >= 0) bars.rows.push_back({name, {{name, *value, hue}}});
  };
  const auto vocab = number_at(summary, "vocab_size");
  row("knowing nothing", vocab && *vocab > 0 ? std::optional(std::log(*vocab)) : std::nullopt,
      Hue::kGrey);
  row("unigram entropy", number_at(summary, "unigram_entropy"), Hue::kGrey);
  row("bigram entropy", number_at(summary, "bigram_entropy"), Hue::kGrey);
  row("this model, held-out", number_at(summary, "held_out_loss"), Hue::kOrange);
  if (bars.rows.size() >= 2) page.section("Result").add(std::move(bars));
}

void add_crawl(Page& page, const ordered_json& summary) {
  const auto pages = number_at(summary, "records"), documents = number_at(summary, "documents");
  if (!pages || !documents) return;
  FunnelStage stage{"records to documents", static_cast<std::int64_t>(*documents), {}};
  double dropped = 0;
  for (const auto& [reason, count] : pairs_at(summary, "dropped")) {
    stage.drops.push_back({reason, static_cast<std::int64_t>(count), {}});
    dropped += std::floor(count);
  }
  if (*documents + dropped != *pages) {
    page.warn(
        {fmt::format("{} records went in, {} documents came out, {} were dropped with a reason",
                     count_text(*pages), count_text(*documents), count_text(dropped)),
         "records are missing from the account: a defect of the count", ""});
    return;
  }
  Funnel funnel{"What was kept, what dropped, why?",
                "One bar per stage, as wide as what entered.",
                "records",
                static_cast<std::int64_t>(*pages),
                {stage}};
  Page::Section& section = page.section("Pages");
  section.add(std::move(funnel));

  auto languages = pairs_at(summary, "languages");
  if (languages.empty()) return;
  std::stable_sort(languages.begin(), languages.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  StackedBars bars;
  bars.title = "In which languages?";
  bars.how_to_read = "Documents kept, as their pages declare it.";
  bars.kind = NumberKind::kCount;
  bars.value_label = "documents";
  double rest = 0;
  for (std::size_t i = 0; i < languages.size(); ++i) {
    const auto& [name, count] = languages[i];
    if (i < kMaxLanguages) {
      bars.rows.push_back({name, {{name, count, Hue::kBlue}}});
    } else {
      rest += count;
    }
  }
  if (rest > 0) bars.rows.push_back({"others", {{"others", rest, Hue::kGrey}}});
  section.add(std::move(bars));
}

void add_stages(Page& page, const ordered_json& summary) {
  const auto stages = stages_of(summary);
  if (stages.empty()) return;
  StackedBars bars;
  bars.title = "Where did the time go?";
  bars.how_to_read = "Wall time of each stage, in the order they ran.";
  bars.value_label = "time";
  for (const auto& [name, seconds] : stages) {
    bars.rows.push_back({name, {{name, seconds, Hue::kBlue}}});
  }
  page.section("Time").add(std::move(bars));
}

}  // namespace

Page make_demo_page(const PageFacts& facts, const ordered_json& summary,
                    const std::vector<DemoLink>& links) {
  Page page(facts, summary);
  add_figures(page, summary);
  if (!links.empty()) {
    PageTable table{"One page for each part of the run", {{"page"}, {"shows"}}, {}, {}};
    for (const DemoLink& link : links) {
      table.rows.push_back({TableCell::link(link.path, link.path), link.text});
    }
    page.section("Reports").add(std::move(table));
  }
  add_learning(page, summary);
  const std::string sample = text_at(summary, "sample");
  if (!sample.empty()) {
    const std::string prompt = text_at(summary, "sample_prompt");
    page.section("A sample")
        .add(PageQuote{prompt.empty() ? "Written by the model" : "Prompt: " + prompt, sample});
  }
  add_crawl(page, summary);
  add_stages(page, summary);
  page.term("nat", "unit of information with the natural logarithm; 1 nat = 1.44 bits");
  page.term("unigram entropy",
            "loss of the best model that knows only how often each token occurs");
  page.term("bigram entropy",
            "loss of a model that counts pairs of neighbouring tokens in the training text, mixed "
            "with single counts");
  return page;
}

}  // namespace sx
