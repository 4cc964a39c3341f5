#include "apps/sextant/cmd_crawl.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "apps/program/read_json.h"
#include "apps/sextant/crawl_apply.h"
#include "apps/sextant/crawl_dedup.h"
#include "apps/sextant/crawl_inspect.h"
#include "apps/sextant/crawl_models.h"
#include "sextant/base/progress.h"
#include "sextant/base/signals.h"
#include "sextant/crawl/crawl_report.h"
#include "sextant/crawl/replay.h"
#include "sextant/crawl/shard_runner.h"
#include "sextant/recipe/open_run.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<fs::path> inputs_of(const Invocation& invocation) {
  const auto& inputs = invocation.recipe.get().crawl.inputs;
  if (inputs.empty()) {
    throw ConfigError(Diagnostic{.number = 25,
                                 .what = "no input",
                                 .where = "command line",
                                 .rule = "name WARC files, globs or @list.txt, or set crawl.inputs",
                                 .next = "sextant crawl pages/*.warc.gz --out runs/crawl"});
  }
  return value_or_throw(expand_inputs(inputs), "ls -l " + inputs.front());
}

void print_table(const CrawlSummary& s) {
  std::string out = fmt::format("{} records, {} pages, {} documents, {} of text\n", s.records(),
                                s.steps[2].docs_in, s.documents(),
                                format_bytes(Bytes(static_cast<std::int64_t>(s.total_text_bytes))));
  for (std::size_t i = 0; i < kNumSteps; ++i) {
    for (std::size_t r = 0; r < kNumReasons; ++r) {
      if (s.steps[i].dropped[r] == 0) continue;
      out += fmt::format("  {:<8} {:<26} {:>10}\n", step_names()[i],
                         to_string(static_cast<Reason>(r)), s.steps[i].dropped[r]);
    }
  }
  std::fputs(out.c_str(), stdout);
}

std::string subject_of(const std::vector<fs::path>& inputs) {
  return inputs.size() == 1 ? inputs.front().filename().string()
                            : fmt::format("{} archives", inputs.size());
}

/// Summary, examples and report into the run's folder; the table or the summary to standard output.
void write_results(const Invocation& invocation, const OpenedRun& run, const CrawlSummary& summary,
                   const std::string& subject) {
  const Json json = crawl_summary_json(summary);
  const Json examples = crawl_examples_json(summary);
  const std::string next = "df -h " + run.folder.path().string();
  value_or_throw(write_file_atomic(run.folder.file("examples.json"), examples.dump(1) + "\n"),
                 next);
  value_or_throw(
      make_crawl_page(make_page_facts("Crawl", subject, summary.seconds, invocation.command), json,
                      examples)
          .write(run.folder.file("report.html")),
      next);
  value_or_throw(write_file_atomic(run.folder.file("summary.json"), json.dump(1) + "\n"), next);
  if (invocation.json)
    std::fputs((json.dump() + "\n").c_str(), stdout);
  else if (!invocation.quiet)
    print_table(summary);
  if (!invocation.json && !invocation.quiet) {
    std::printf("report: %s\n", run.folder.file("report.html").c_str());
  }
}

int run_replay_verb(const Invocation& invocation) {
  const CrawlOptions options = crawl_options(invocation.recipe.get());
  const fs::path from = invocation.inputs.front();
  const OpenedRun run = open_run(invocation, Resume::kNever);
  const CrawlSummary summary =
      value_or_throw(run_replay(from, options, run.folder.path()), "ls -l " + from.string());
  write_results(invocation, run, summary, from.filename().string());
  return 0;
}

int run_crawl_verb(const Invocation& invocation) {
  const CrawlOptions options = crawl_options(invocation.recipe.get());
  const std::vector<fs::path> inputs = inputs_of(invocation);
  std::uint64_t total = 0;
  for (const fs::path& path : inputs) {
    std::error_code code;
    const std::uint64_t size = fs::file_size(path, code);
    if (!code) total += size;
  }
  const OpenedRun run = open_run(invocation, Resume::kNever);
  Progress progress("crawl", "bytes", total, invocation.quiet || invocation.json);
  std::uint64_t shown = 0;
  const auto on_progress = [&](std::uint64_t bytes, const CrawlSummary& s) {
    progress.note(fmt::format("docs {} -> {}", s.records(), s.documents()));
    progress.add(bytes - shown);
    shown = bytes;
  };
  const CrawlSummary summary = value_or_throw(
      run_crawl(inputs, options, run.folder.path(), on_progress, signals::stop_requested),
      "sextant crawl inspect " + inputs.front().string());
  progress.finish();
  if (summary.stopped) {
    std::fprintf(
        stderr,
        "stopped on request after %llu records: nothing was written, --overwrite begins again\n",
        static_cast<unsigned long long>(summary.records()));
    return static_cast<int>(ExitCode::kInterrupt);
  }
  write_results(invocation, run, summary, subject_of(inputs));
  if (summary.bad_share() > options.max_bad_share) {
    throw FatalError(Diagnostic{
        .exit = ExitCode::kData,
        .number = 1,
        .what = fmt::format("{} of {} records are damaged ({:.2f} %)", summary.damaged(),
                            summary.records(), 100 * summary.bad_share()),
        .where = run.folder.file("report.html").string(),
        .rule = fmt::format("crawl.max_bad_share = {}; documents and report were written",
                            options.max_bad_share),
        .next = "sextant crawl inspect " + inputs.front().string()});
  }
  return 0;
}

int run_explain_policy(const Invocation& invocation) {
  auto policy = parse_policy({invocation.inputs.begin(), invocation.inputs.end()});
  if (!policy.ok()) {
    throw ConfigError(Diagnostic{.number = 60,
                                 .what = policy.error().message,
                                 .where = "command line",
                                 .rule = "names of policies, or rule:preset{threshold=number}",
                                 .next = "sextant crawl explain-policy fineweb"});
  }
  std::fputs(explain_policy(*policy).c_str(), stdout);
  return 0;
}

int run_report(const Invocation& invocation) {
  const fs::path run = invocation.inputs.front();
  const Json summary = read_json(run / "summary.json", "run the crawl again");
  const Json examples = read_json(run / "examples.json", "run the crawl again");
  const auto& files = summary.at("files");
  const std::string subject =
      files.size() == 1 ? fs::path(files[0].at("path").get<std::string>()).filename().string()
                        : fmt::format("{} archives", files.size());
  value_or_throw(make_crawl_page(make_page_facts("Crawl", subject, summary.value("seconds", 0.0),
                                                 invocation.command),
                                 summary, examples)
                     .write(run / "report.html"),
                 "df -h " + run.string());
  std::printf("report: %s\n", (run / "report.html").c_str());
  return 0;
}

/// Reads the run's documents again and holds them against its counters. Returns the differences.
std::vector<std::string> verify_outputs(const fs::path& run, const Json& summary) {
  std::vector<std::string> faults;
  for (const Json& output : summary.at("outputs")) {
    const std::string name = output.at("file").get<std::string>();
    auto reader = JsonlReader::open(run / name);
    std::uint64_t documents = 0;
    if (!reader.ok()) {
      faults.push_back(reader.error().to_string());
      continue;
    }
    for (;;) {
      auto document = reader->next();
      if (!document.ok()) {
        faults.push_back(document.error().to_string());
        break;
      }
      if (!document->has_value()) break;
      ++documents;
    }
    if (documents != output.at("documents").get<std::uint64_t>()) {
      faults.push_back(fmt::format("{} holds {} documents, summary.json says {}", name, documents,
                                   output.at("documents").get<std::uint64_t>()));
    }
  }
  std::uint64_t drops = 0;
  for (const auto& [reason, count] : summary.at("dropped").items())
    drops += count.get<std::uint64_t>();
  const auto records = summary.at("records").get<std::uint64_t>();
  const auto documents = summary.at("documents").get<std::uint64_t>();
  if (records != documents + drops) {
    faults.push_back(
        fmt::format("{} records are not {} documents + {} drops", records, documents, drops));
  }
  return faults;
}

int run_verify(const Invocation& invocation) {
  const fs::path run = invocation.inputs.front();
  const Json summary = read_json(run / "summary.json", "run the crawl again");
  const auto faults = verify_outputs(run, summary);
  for (const std::string& fault : faults) std::fprintf(stdout, "%s\n", fault.c_str());
  if (!faults.empty()) return static_cast<int>(ExitCode::kVerdict);
  std::printf("%llu records = %llu documents + drops by reason; all outputs read back\n",
              static_cast<unsigned long long>(summary.at("records").get<std::uint64_t>()),
              static_cast<unsigned long long>(summary.at("documents").get<std::uint64_t>()));
  return 0;
}

}  // namespace

CrawlOptions crawl_options(const Recipe& recipe) {
  const CrawlKeys& keys = recipe.crawl;
  CrawlOptions options;
  options.select_types = keys.select.types;
  options.select_mime = keys.select.mime;
  options.select_status = keys.select.status;
  options.max_payload_bytes = static_cast<std::uint64_t>(keys.max_payload.value);
  options.dump = keys.dump;
  options.charset.order = keys.charset.order;
  options.charset.extra = keys.charset.extra;
  options.html.max_nodes = static_cast<std::uint64_t>(keys.html.max_nodes);
  options.html.max_depth = static_cast<std::size_t>(keys.html.max_depth);
  options.html.max_attributes = static_cast<std::size_t>(keys.html.max_attributes);
  options.html.memory_per_byte = static_cast<std::uint64_t>(keys.html.memory_per_byte);
  options.drop_over_limit = keys.html.on_limit == OnLimit::kDrop;
  options.annotate = static_cast<Annotate>(keys.annotate);
  options.extract = static_cast<ExtractMode>(keys.extract.mode);
  options.min_confidence = keys.extract.min_confidence;
  options.pii.mode = static_cast<PiiMode>(keys.pii.mode);
  options.pii.preset = static_cast<PiiPreset>(keys.pii.preset);
  for (std::size_t i = 0; i < kNumPiiKinds; ++i) {
    const auto kind = static_cast<PiiKind>(i);
    if (contains(keys.pii.kinds, to_string(kind))) options.pii.kinds.push_back(kind);
  }
  if (options.pii.kinds.empty()) options.pii.mode = PiiMode::kOff;
  options.pii.key = recipe.run.seed;
  options.drop_duplicates = contains(keys.dedup.kinds, "document");
  options.drop_near_duplicates = contains(keys.dedup.kinds, "minhash");
  options.near.keep = static_cast<KeepRule>(keys.dedup.keep);
  options.near.jaccard = keys.dedup.jaccard;
  options.near.seed = recipe.run.seed;
  auto policy = parse_policy(keys.policy);
  if (!policy.ok()) {
    throw ConfigError(Diagnostic{.number = 60,
                                 .what = policy.error().message,
                                 .where = "crawl.policy",
                                 .rule = "names of policies, or rule:preset{threshold=number}",
                                 .next = "sextant crawl explain-policy fineweb"});
  }
  options.policy = std::move(policy).value();
  options.shard_bytes = static_cast<std::uint64_t>(keys.output.shard_bytes.value);
  options.frame_bytes = static_cast<std::uint64_t>(keys.output.frame_bytes.value);
  options.zstd_level = static_cast<int>(keys.output.zstd_level);
  options.max_bad_share = keys.max_bad_share;
  options.num_threads = static_cast<std::size_t>(std::max<std::int64_t>(1, recipe.run.threads));
  return options;
}

int run_crawl(const Invocation& invocation) {
  if (invocation.sub->name == "apply") return run_crawl_apply(invocation);
  if (invocation.sub->name == "explain-policy") return run_explain_policy(invocation);
  if (invocation.sub->name == "replay") return run_replay_verb(invocation);
  if (invocation.sub->name == "dedup") return run_crawl_dedup(invocation);
  if (invocation.sub->name == "train") return run_crawl_train(invocation);
  if (invocation.sub->name == "score") return run_crawl_score(invocation);
  if (invocation.sub->name == "inspect") return run_crawl_inspect(invocation);
  if (invocation.sub->name == "report") return run_report(invocation);
  if (invocation.sub->name == "verify") return run_verify(invocation);
  if (invocation.has("trace-doc")) return run_trace_doc(invocation, inputs_of(invocation));
  return run_crawl_verb(invocation);
}

}  // namespace sx
