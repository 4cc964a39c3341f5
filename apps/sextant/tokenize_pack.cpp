#include <fmt/format.h>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/console.h"
#include "sextant/base/fs.h"
#include "sextant/base/progress.h"
#include "sextant/base/signals.h"
#include "sextant/base/units.h"
#include "sextant/data/pack.h"
#include "sextant/recipe/open_run.h"

namespace sx {
namespace {

std::int32_t eod_of(const Invocation& invocation, const Tokenizer& tokenizer) {
  if (invocation.has("no-eod")) return -1;
  if (const auto eod = tokenizer.eod_id()) return static_cast<std::int32_t>(*eod);
  throw ConfigError(Diagnostic{.number = 4,
                               .what = "the tokenizer has no end-of-document token",
                               .where = "tokenizer.path",
                               .rule = "documents end with <|endoftext|>",
                               .next = "--no-eod, or another --tokenizer"});
}

PackOptions options_of(const Invocation& invocation, const Tokenizer& tokenizer) {
  PackOptions options;
  auto inputs = expand_inputs(invocation.inputs);
  if (!inputs.ok()) fail(inputs.error(), "name files that exist");
  options.inputs = std::move(inputs).value();
  options.text_key = invocation.text("json-key", "text");
  options.heldout_prefix = invocation.text("heldout-prefix");
  options.heldout_share = invocation.number("heldout-share", options.heldout_share);
  options.heldout_seed = invocation.recipe->run.seed;
  options.eod_id = eod_of(invocation, tokenizer);
  options.threads = static_cast<int>(invocation.recipe->run.threads);
  options.overwrite = invocation.overwrite;
  if (invocation.has("interval")) {
    options.interval_bytes =
        static_cast<std::uint64_t>(parse_bytes(invocation.text("interval")).value().value);
  }
  return options;
}

std::string table_of(const PackReport& report, const PackOptions& options) {
  const auto part = [](const char* name, const std::string& prefix, const PackReport::Part& p) {
    return fmt::format("{:<12} {} tokens, {} documents, {} of text in {}.bin\n", name, p.tokens,
                       p.documents, format_bytes(Bytes(static_cast<std::int64_t>(p.text_bytes))),
                       prefix);
  };
  std::string text = part("tokens", options.prefix, report.train);
  if (!options.heldout_prefix.empty()) {
    text += part("held out", options.heldout_prefix, report.heldout);
    text +=
        fmt::format("             {} lines taken out of training pages; lines still shared: {}\n",
                    report.lines_removed, report.shared_lines);
  }
  text += fmt::format("documents    {} in, {} without text left, {} bad\n", report.documents_in,
                      report.documents_emptied, report.documents_bad);
  if (report.resumes > 0) {
    text += fmt::format("resumed      {} times, at most {} tokens written again at one\n",
                        report.resumes, report.max_repeated_tokens);
  }
  if (report.already_complete) text += "note         it was complete before this call\n";
  return text;
}

}  // namespace

int tokenize_pack(const Invocation& invocation) {
  const Tokenizer tokenizer = load_tokenizer(invocation);
  PackOptions options = options_of(invocation, tokenizer);
  options.prefix = invocation.text("output-prefix");
  std::optional<OpenedRun> run;
  if (options.prefix.empty() || !invocation.out.empty()) {
    if (invocation.dry_run) {
      options.prefix = "<out>/tokens";
    } else {
      run.emplace(open_run(invocation, Resume::kIfSame));
      if (options.prefix.empty()) options.prefix = run->folder.file("tokens").string();
    }
  }
  if (invocation.dry_run) {
    print_result(fmt::format("would pack {} files and write {}.bin, {}.idx\n",
                             options.inputs.size(), options.prefix, options.prefix));
    return 0;
  }
  std::unique_ptr<Progress> progress;
  std::uint64_t shown = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress) progress = std::make_unique<Progress>("pack", "bytes", total, invocation.quiet);
    if (done > shown) progress->add(done - shown);
    shown = std::max(shown, done);
  };
  options.stop = [&] { return signals::stop_requested() || (run && run->folder.stop_requested()); };
  auto report = pack_documents(tokenizer, options);
  progress.reset();
  if (!report.ok())
    fail(report.error(), "choose another --output-prefix, or --overwrite to begin again");
  if (report->stopped) {
    if (!invocation.quiet)
      console::write_line("stopped; the state is saved, the same command goes on");
    return static_cast<int>(ExitCode::kRequeue);
  }
  print_result(invocation.json ? report->to_json().dump(2) + "\n" : table_of(*report, options));
  return 0;
}

}  // namespace sx
