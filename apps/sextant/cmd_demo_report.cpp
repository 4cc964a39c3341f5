#include "apps/sextant/cmd_demo_report.h"

#include <fmt/format.h>

#include <sstream>

#include "apps/program/read_json.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/fs.h"
#include "sextant/trace/demo_report.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNext = "./sx demo";

void copy_keys(Json& to, const Json& from, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (from.contains(key)) to[key] = from[key];
  }
}

// "name<TAB>seconds" lines.
Json read_stages(const fs::path& path) {
  const auto text = read_file(path);
  if (!text.ok()) throw IoError(to_diagnostic(text.error(), kNext));
  Json stages = Json::array();
  std::istringstream lines(*text);
  std::string name;
  double seconds = 0;
  while (lines >> name >> seconds) stages.push_back({{"name", name}, {"seconds", seconds}});
  return stages;
}

Json collect(const fs::path& folder) {
  const Json crawl = read_json(folder / "crawl/summary.json", kNext);
  const Json pack = read_json(folder / "tokens/train.pack.json", kNext);
  const Json train = read_json(folder / "train/summary.json", kNext);
  const Json sample = read_json(folder / "sample.json", kNext);
  Json summary;
  copy_keys(summary, crawl,
            {"records", "pages", "documents", "dropped", "languages", "text_bytes"});
  summary["tokens"] = pack["train"]["tokens"];
  summary["held_out_documents"] = pack["heldout"]["documents"];
  copy_keys(summary, pack, {"lines_removed", "shared_lines"});
  copy_keys(summary, train,
            {"params", "steps", "first_loss", "last_loss", "held_out_loss", "held_out_tokens",
             "unigram_entropy", "bigram_entropy", "tokens_per_s"});
  summary["sample_prompt"] = sample["prompt"];
  summary["sample"] = sample["text"];
  summary["crawl_mb_per_s"] = crawl["mb_per_s"];
  summary["stages"] = read_stages(folder / "stages.tsv");
  return summary;
}

PageFacts facts_of(const Json& summary) {
  double seconds = 0;
  for (const Json& stage : summary["stages"]) seconds += stage["seconds"].get<double>();
  return make_page_facts(
      "Demo: from web pages to a language model",
      fmt::format("{} documents, {} tokens", summary["documents"].get<std::int64_t>(),
                  summary["tokens"].get<std::int64_t>()),
      seconds, {"./sx", "demo"});
}

void print_answer(const Json& summary, const fs::path& report) {
  const auto number = [&](const char* key) { return summary[key].get<double>(); };
  fmt::print("{} records in, {} documents kept, {} tokens\n",
             summary["records"].get<std::int64_t>(), summary["documents"].get<std::int64_t>(),
             summary["tokens"].get<std::int64_t>());
  if (summary.contains("held_out_loss") && summary.contains("unigram_entropy")) {
    fmt::print("held-out loss {:.3f} nats per token (unigram entropy {:.3f}, bigram {:.3f})\n",
               number("held_out_loss"), number("unigram_entropy"), number("bigram_entropy"));
  }
  fmt::print("report pages: {}\n", report.string());
}

}  // namespace

int run_demo_report(const Invocation& invocation) {
  const fs::path folder = invocation.inputs.front();
  const Json summary = collect(folder);
  const auto written = write_file_atomic(folder / "summary.json", summary.dump(2) + "\n");
  if (!written.ok()) throw IoError(to_diagnostic(written.error(), kNext));
  const Page page =
      make_demo_page(facts_of(summary), summary,
                     {{"crawl/report.html", "what came in, what was dropped and why"},
                      {"train/report.html", "how the loss fell and where the time went"}});
  const auto made = page.write(folder / "report.html");
  if (!made.ok()) throw IoError(to_diagnostic(made.error(), kNext));
  print_answer(summary, folder / "report.html");
  return 0;
}

}  // namespace sx
