// From the files of a run to its report: the numbers come from metrics.jsonl and the StepTraces,
// not from memory, so that a resumed run reports the whole of it.

#include "sextant/train/run_report.h"

#include <cmath>

#include <fmt/format.h>

#include <algorithm>

#include "sextant/base/diagnostic.h"
#include "sextant/data/entropy.h"
#include "sextant/recipe/key_table.h"
#include "sextant/shape/inventory.h"
#include "sextant/trace/train_report.h"

namespace sx {

namespace {

// Counting pairs of tokens takes memory in proportion to the training data; larger data is left
// without these marks.
constexpr std::uint64_t kMaxEntropyTokens = 100'000'000;

void throw_io(const Error& error) {
  throw IoError(to_diagnostic(error, "free space, then run the same command again"));
}

std::optional<EntropyReport> measure_entropy_marks(const TrainData& data, std::int64_t vocab_size) {
  if (!data.heldout || data.train->members().size() != 1 || data.heldout->members().size() != 1 ||
      data.train->num_tokens() > kMaxEntropyTokens) {
    return std::nullopt;
  }
  auto report = measure_entropy(*data.train->members()[0].source,
                                *data.heldout->members()[0].source, vocab_size);
  if (!report.ok()) return std::nullopt;  // fewer than two held-out tokens
  return *report;
}

// Steps done more than once because a run was interrupted: lines of the first rank's traces that
// were done again.
std::int64_t repeated_steps(const RunFolder& folder, std::int64_t distinct) {
  const auto text = read_file(folder.file(step_trace_name(0)));
  if (!text.ok()) return 0;
  return std::count(text->begin(), text->end(), '\n') - distinct;
}

// Keys that something other than a default gave, with their values.
std::vector<std::pair<std::string, std::string>> changed_settings(const ResolvedRecipe& recipe) {
  const nlohmann::ordered_json tree = recipe.to_json();
  std::vector<std::pair<std::string, std::string>> settings;
  for (const KeySpec& key : key_table()) {
    const std::string source = recipe.source(key.name);
    if (source == "default" || source == "derived") continue;
    std::string pointer = "/" + key.name;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const nlohmann::ordered_json::json_pointer at(pointer);
    if (tree.contains(at)) settings.emplace_back(key.name, tree.at(at).dump());
  }
  return settings;
}

// Measured beside predicted, in bytes, at the moment of each one's peak.
nlohmann::ordered_json memory_summary(const MemoryNumbers& measured, const RunOutcome& outcome) {
  const MemoryPeak& predicted = outcome.predicted_memory.allocated;
  nlohmann::ordered_json measured_boxes, predicted_boxes;
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    measured_boxes[to_string(static_cast<MemoryCategory>(i))] =
        measured.at_peak[static_cast<std::size_t>(i)];
  }
  for (int i = 0; i < kNumDpBoxes; ++i) {
    predicted_boxes[to_string(static_cast<DpBox>(i))] =
        predicted.boxes[static_cast<std::size_t>(i)];
  }
  return {{"peak_bytes", measured.peak_total},
          {"predicted_peak_bytes", predicted.bytes},
          {"predicted_at", predicted.moment},
          {"at_peak", measured_boxes},
          {"predicted_at_peak", predicted_boxes}};
}

}  // namespace

nlohmann::ordered_json eval_summary(const RunOutcome& outcome) {
  nlohmann::ordered_json summary{{"step", outcome.progress.step},
                                 {"tokens", outcome.progress.tokens}};
  if (outcome.heldout) {
    summary["held_out_loss"] = outcome.heldout->loss;
    summary["held_out_tokens"] = outcome.heldout->tokens;
    summary["perplexity"] = std::exp(outcome.heldout->loss);
  }
  if (outcome.choices) summary["choices"] = choice_summary(*outcome.choices);
  return summary;
}

nlohmann::ordered_json write_run_report(const RunFolder& folder, const ResolvedRecipe& recipe,
                                        const ModelShape& shape, const TrainData& data,
                                        const RunOutcome& outcome,
                                        const std::vector<std::string>& command) {
  TrainReport report;
  report.facts =
      make_page_facts("Training run",
                      fmt::format("{}, {} parameters, {} data-parallel ranks", shape.name,
                                  format_count(static_cast<double>(num_params(shape))),
                                  recipe->parallelism.data_ranks()),
                      outcome.seconds, command);

  if (recipe->metrics.jsonl) {
    auto metrics = read_metrics(folder.file("metrics.jsonl"));
    if (!metrics.ok()) throw_io(metrics.error());
    report.metrics = std::move(*metrics);
  }
  for (std::int64_t rank = 0; rank < recipe->parallelism.data_ranks(); ++rank) {
    auto traces = read_step_traces(folder.file(step_trace_name(rank)));
    if (!traces.ok()) throw_io(traces.error());
    report.ranks.push_back(std::move(*traces));
  }
  const auto entropy = measure_entropy_marks(data, shape.vocab_size);
  if (entropy) {
    report.unigram_entropy = entropy->unigram_nats;
    report.bigram_entropy = entropy->bigram_nats;
  }
  report.num_params = num_params(shape);
  report.tokens_per_step = recipe->training.global_batch_size * recipe->training.seq_len;
  report.settings = changed_settings(recipe);

  report.extra["repeated_steps"] =
      report.ranks.empty()
          ? 0
          : repeated_steps(folder, static_cast<std::int64_t>(report.ranks[0].size()));
  report.extra["skipped_steps"] = outcome.progress.skipped_steps;
  report.extra["seconds"] = outcome.seconds;
  if (outcome.memory) report.extra["memory"] = memory_summary(*outcome.memory, outcome);
  if (outcome.heldout) report.extra["held_out_tokens"] = outcome.heldout->tokens;
  nlohmann::ordered_json summary = train_summary(report);
  if (const auto written = write_file_atomic(folder.file("summary.json"), summary.dump(2) + "\n");
      !written.ok()) {
    throw_io(written.error());
  }
  if (const auto written = make_train_page(report).write(folder.file("report.html"));
      !written.ok()) {
    throw_io(written.error());
  }
  return summary;
}

int intra_op_threads(const Recipe& recipe) {
  if (recipe.run.deterministic) return 1;
  return static_cast<int>(
      std::max<std::int64_t>(1, recipe.run.threads / recipe.parallelism.data_ranks()));
}

std::map<std::string, std::string> read_tokenizer_files(const fs::path& path) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() &&
          (name.starts_with("vocab.") || name == "tokenizer.json" || name == "tokenizer.model"))
        files.push_back(entry.path());
    }
  } else if (path.extension() == ".json" || path.extension() == ".model") {
    files.push_back(path);
  } else {
    files.push_back(path);
    if (const fs::path sidecar = fs::path(path).replace_extension(".json"); fs::exists(sidecar))
      files.push_back(sidecar);
  }
  std::map<std::string, std::string> contents;
  for (const fs::path& file : files) {
    auto text = read_file(file);
    if (!text.ok()) throw_io(text.error());
    // One name for every source of a kind, so that the folder alone tells how to read it.
    const bool sidecar = file.extension() == ".json" &&
                         std::any_of(files.begin(), files.end(), [&](const fs::path& other) {
                           return other == fs::path(file).replace_extension(".tiktoken");
                         });
    const bool ranks = file.extension() == ".tiktoken" || sidecar ||
                       file.filename().string().starts_with("vocab.");
    contents[(ranks ? "vocab" : "tokenizer") + file.extension().string()] = std::move(*text);
  }
  return contents;
}

}  // namespace sx
