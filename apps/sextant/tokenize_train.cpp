#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/console.h"
#include "sextant/base/fs.h"
#include "sextant/base/progress.h"
#include "sextant/base/signals.h"
#include "sextant/base/units.h"
#include "sextant/recipe/open_run.h"
#include "sextant/token/vocab_training.h"

namespace sx {
namespace {

SplitRule split_of(const Invocation& invocation) {
  const std::string& pattern = invocation.recipe->tokenizer.pattern;
  if (pattern == "auto") return SplitFamily::kCl100k;
  if (const auto family = parse_split_family(pattern)) return *family;
  auto rule = SplitRule::from_pattern(pattern);
  if (rule.ok()) return std::move(rule).value();
  throw ConfigError(Diagnostic{
      .number = 3,
      .what = fmt::format("tokenizer.pattern = {}: {}", pattern, rule.error().message),
      .where = invocation.recipe.source("tokenizer.pattern"),
      .rule = "auto (= cl100k), none, r50k, gpt2, cl100k, llama3, o200k, qwen2, or a pattern "
              "that PCRE2 takes",
      .next = "--set tokenizer.pattern=cl100k"});
}

// Half of the memory that is free now; the counts beyond it go to disk.
std::uint64_t memory_budget() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024 / 2;
  }
  return std::uint64_t{4} << 30;
}

std::int64_t bytes_flag(const Invocation& invocation, const char* flag, std::int64_t fallback) {
  return invocation.has(flag) ? parse_bytes(invocation.text(flag)).value().value : fallback;
}

VocabTrainingOptions options_of(const Invocation& invocation) {
  const TokenizerKeys& keys = invocation.recipe->tokenizer;
  VocabTrainingOptions options;
  options.bpe.split = split_of(invocation);
  options.bpe.vocab_size = static_cast<std::size_t>(keys.vocab_size);
  options.bpe.min_frequency = static_cast<std::uint64_t>(keys.min_frequency);
  options.bpe.max_token_length = static_cast<std::size_t>(keys.max_token_length);
  for (const std::string& text : invocation.texts("add-special")) {
    if (std::find(options.bpe.specials.begin(), options.bpe.specials.end(), text) ==
        options.bpe.specials.end()) {
      options.bpe.specials.push_back(text);
    }
  }
  auto inputs = expand_inputs(invocation.inputs);
  if (!inputs.ok()) fail(inputs.error(), "name files that exist");
  options.inputs = std::move(inputs).value();
  options.text_key = invocation.text("json-key", "text");
  options.threads = static_cast<std::size_t>(invocation.recipe->run.threads);
  options.memory_bytes =
      keys.train_memory ? static_cast<std::uint64_t>(keys.train_memory->value) : memory_budget();
  options.interval_bytes = static_cast<std::uint64_t>(
      bytes_flag(invocation, "interval", static_cast<std::int64_t>(options.interval_bytes)));
  options.interval_merges = static_cast<std::uint64_t>(
      invocation.integer("interval-merges", static_cast<std::int64_t>(options.interval_merges)));
  return options;
}

std::string table_of(const VocabTrainingReport& report, const fs::path& out) {
  const double per_token = report.tokens == 0 ? 0
                                              : static_cast<double>(report.text_bytes) /
                                                    static_cast<double>(report.tokens);
  std::string text = fmt::format(
      "vocabulary   {} tokens ({} merges) in {}\n"
      "documents    {} ({} of {} lines were no documents)\n"
      "text         {}, {} different pieces\n"
      "tokens       {} ({:.3f} bytes per token)\n"
      "fingerprint  {}\n",
      report.vocab_size, report.merges, (out / "vocab.tiktoken").string(), report.documents,
      report.documents_bad, report.documents + report.documents_bad,
      format_bytes(Bytes(static_cast<std::int64_t>(report.text_bytes))), report.unique_pieces,
      report.tokens, per_token, report.fingerprint);
  for (const std::string& example : report.bad_examples) text += "  bad        " + example + "\n";
  if (report.resumes > 0) {
    text += fmt::format("resumed      {} times, at most {} of text and {} merges repeated at one\n",
                        report.resumes,
                        format_bytes(Bytes(static_cast<std::int64_t>(report.max_repeated_bytes))),
                        report.max_repeated_merges);
  }
  if (report.already_complete) text += "note         it was complete before this call\n";
  return text;
}

}  // namespace

int tokenize_train(const Invocation& invocation) {
  if (invocation.recipe->tokenizer.vocab_size == 0) {
    throw ConfigError(Diagnostic{.number = 25,
                                 .what = "tokenizer.vocab_size is not set",
                                 .where = "command line",
                                 .rule = "a training says how many tokens it makes",
                                 .next = "--vocab-size 8k"});
  }
  VocabTrainingOptions options = options_of(invocation);
  if (invocation.dry_run) {
    print_result(fmt::format(
        "would train {} tokens (split {}) from {} files and write vocab.tiktoken, "
        "vocab.json, tokenizer.json, "
        "train.json\n",
        options.bpe.vocab_size, to_string(options.bpe.split.family()), options.inputs.size()));
    return 0;
  }
  const OpenedRun run = open_run(invocation, Resume::kIfSame);
  options.out = run.folder.path();
  std::unique_ptr<Progress> progress;
  std::string phase;
  std::uint64_t shown = 0;
  options.progress = [&](const char* now, std::uint64_t done, std::uint64_t total) {
    if (phase != now) {
      progress.reset();
      phase = now;
      shown = 0;
      progress = std::make_unique<Progress>(phase, phase == "count" ? "bytes" : "merges", total,
                                            invocation.quiet);
    }
    if (done > shown) progress->add(done - shown);
    shown = std::max(shown, done);
  };
  options.stop = [&] { return signals::stop_requested() || run.folder.stop_requested(); };
  auto report = train_vocab(options);
  progress.reset();
  if (!report.ok()) fail(report.error(), "choose another --out, or --overwrite to begin again");
  if (report->stopped) {
    if (!invocation.quiet)
      console::write_line("stopped; the state is saved, the same command goes on");
    return static_cast<int>(ExitCode::kRequeue);
  }
  print_result(invocation.json ? report->to_json().dump(2) + "\n" : table_of(*report, options.out));
  return 0;
}

}  // namespace sx
