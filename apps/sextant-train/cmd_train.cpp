#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "apps/sextant-train/commands.h"
#include "apps/sextant-train/rank_run.h"
#include "sextant/base/check.h"
#include "sextant/base/console.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/env.h"
#include "sextant/base/log.h"
#include "sextant/base/run_folder.h"
#include "sextant/base/signals.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/convert/convert.h"
#include "sextant/recipe/open_run.h"
#include "sextant/tensor/rank_thread.h"
#include "sextant/train/explain_step.h"
#include "sextant/train/hf_start.h"
#include "sextant/train/trainer.h"

namespace sx {

namespace {

void configure_log(const Invocation& invocation, const RunFolder& folder, std::int64_t rank) {
  log::Options options;
  options.level = invocation.recipe->log.level;
  options.console = !invocation.quiet;
  options.jsonl_path = folder.file(fmt::format("log/rank-{:05}.jsonl", rank)).string();
  options.global_rank = static_cast<int>(rank);
  if (const auto configured = log::configure(options); !configured.ok()) {
    throw IoError(to_diagnostic(configured.error(), "another --out"));
  }
}

void print_dry_run(const Invocation& invocation) {
  const Recipe& recipe = invocation.recipe.get();
  const fs::path out =
      invocation.out.empty() ? default_out("train", recipe.run.name) : invocation.out;
  fmt::print("would train {} steps of {} sequences of {} tokens on {} rank(s)\n",
             recipe.training.steps, recipe.training.global_batch_size, recipe.training.seq_len,
             recipe.parallelism.data_ranks());
  fmt::print("would write\n");
  for (const char* name :
       {"recipe.resolved.toml", "run.json", "metrics.jsonl", "events.out.tfevents.*",
        "trace/rank-*.jsonl", "ckpt/step-*", "summary.json", "report.html"}) {
    fmt::print("  {}\n", (out / name).string());
  }
  if (recipe.checkpoint.export_hf) fmt::print("  {}\n", (out / "hf").string());
}

std::optional<safetensors::Dtype> export_dtype(DtypeOrAuto dtype) {
  switch (dtype) {
    case DtypeOrAuto::kAuto: return std::nullopt;
    case DtypeOrAuto::kFp32: return safetensors::Dtype::kF32;
    case DtypeOrAuto::kFp64: return safetensors::Dtype::kF64;
    case DtypeOrAuto::kBf16: return safetensors::Dtype::kBF16;
    case DtypeOrAuto::kFp16: return safetensors::Dtype::kF16;
  }
  return std::nullopt;
}

/// The newest checkpoint as a folder that transformers opens. Rank 0 alone.
void export_model(const CheckpointKeys& keys, const RunFolder& folder) {
  const fs::path root = ResolvedRecipe::expand_run(keys.dir, folder.path().string());
  const fs::path target = folder.file("hf");
  std::vector<std::string> rejected;
  const auto newest = find_newest_checkpoint(root, false, &rejected);
  if (!newest.ok()) throw IoError(to_diagnostic(newest.error(), "sextant ckpt verify"));
  if (!rejected.empty()) {
    throw IoError(to_diagnostic({ErrorKind::kCorrupt, rejected.front(), root.string()},
                                "sextant ckpt verify " + root.string()));
  }
  SX_CHECK(newest->has_value(), "a run that is done left no checkpoint in {}", root.string());
  std::error_code ignored;
  fs::remove_all(target, ignored);  // of an earlier end of this run
  const auto written = export_hf(**newest, target, {.dtype = export_dtype(keys.export_dtype)});
  if (!written.ok()) {
    throw IoError(to_diagnostic(written.error(), "sextant ckpt convert --from sextant --to hf"));
  }
  SX_LOG(kInfo, "hf.exported", "path", target.string(), "tensors", written->tensors);
}

/// Axes the recipe may name (`sextant plan mesh` shows them) and training does not have yet.
void refuse_missing_axes(const ParallelismKeys& parallelism) {
  const std::pair<const char*, std::int64_t> missing[] = {{"cp", parallelism.cp},
                                                          {"tp", parallelism.tp},
                                                          {"pp", parallelism.pp},
                                                          {"ep", parallelism.ep},
                                                          {"etp", parallelism.etp}};
  std::vector<Diagnostic> faults;
  for (const auto& [name, degree] : missing) {
    if (degree == 1) continue;
    faults.push_back(
        {.exit = ExitCode::kUser,
         .number = 5,
         .what = fmt::format("parallelism.{} = {}: training has no such axis yet", name, degree),
         .where = fmt::format("parallelism.{}", name),
         .rule = "this version trains over dp_replicate and dp_shard",
         .next = fmt::format("--set parallelism.{}=1", name)});
  }
  if (!faults.empty()) throw ConfigError(faults);
}

// Rank 0 opens the folder, the others join it.
RunFolder open_folder(const Invocation& invocation, Resume resume, RankProcess* process) {
  if (process == nullptr) return open_run(invocation, resume).folder;
  std::optional<RunFolder> opened;
  const std::string path = process->agree("run folder", [&] {
    opened.emplace(open_run(invocation, resume).folder);
    return opened->path().string();
  });
  process->set_flight_folder(fs::path(path) / "flight");
  if (opened) return *std::move(opened);
  auto joined = RunFolder::open(path, RunFolder::Existing::kResume);
  if (joined.ok()) return std::move(joined).value();
  throw IoError(to_diagnostic(joined.error(), "all ranks must see the folder of rank 0"));
}

int train(const Invocation& invocation, RankProcess* process) {
  const Recipe& recipe = invocation.recipe.get();
  const std::int64_t rank = process == nullptr ? 0 : process->facts().global_rank;
  const TrainInputs inputs = open_train_inputs(recipe);
  const bool eval_only = invocation.has("eval-only");
  if (!eval_only && !invocation.text("choices").empty()) {
    throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                                 .number = 4,
                                 .what = "--choices without --eval-only",
                                 .where = "command line (--choices)",
                                 .rule = "multiple choice is scored with a model that is there",
                                 .next = "sextant train --eval-only --choices FILE --out RUN"});
  }
  // Weights of a folder of Hugging Face can be evaluated without a run of ours.
  const bool from_hf = !hf_folder_of(recipe.checkpoint.load).empty();
  const bool must_exist = (eval_only && !from_hf) || invocation.has("resume");
  const RunFolder folder =
      open_folder(invocation, must_exist ? Resume::kMustExist : Resume::kIfSame, process);
  configure_log(invocation, folder, rank);
  if (process != nullptr) {
    SX_LOG(kInfo, "comm.init", "launcher", env::describe(process->facts()), "transport",
           process->world().capabilities().transport);
    for (const std::string& warning : process->facts().warnings)
      SX_LOG(kWarn, "env.ignored", "what", warning);
  }
  const TrainOptions options{.recipe = invocation.recipe,
                             .folder = folder,
                             .eval_only = eval_only,
                             .choices = invocation.text("choices"),
                             .quiet = invocation.quiet || rank != 0,
                             .command = invocation.command,
                             .process = process};
  signals::set_stop_deadline(recipe.checkpoint.stop_deadline);
  const TrainOutcome outcome = run_training(options, inputs);
  if (rank != 0) return static_cast<int>(outcome.exit);
  if (recipe.checkpoint.export_hf && !eval_only && outcome.exit == ExitCode::kOk)
    export_model(recipe.checkpoint, folder);
  if (invocation.json) fmt::print("{}\n", outcome.summary.dump());
  if (!invocation.quiet && !eval_only) {
    console::write_line("report " + folder.file("report.html").string());
  }
  if (eval_only && !invocation.json && outcome.summary.contains("held_out_loss")) {
    fmt::print("held-out loss {:.4f} over {} tokens, perplexity {:.4f}\n",
               outcome.summary["held_out_loss"].get<double>(),
               outcome.summary["held_out_tokens"].get<std::int64_t>(),
               outcome.summary["perplexity"].get<double>());
  }
  if (eval_only && !invocation.json && outcome.summary.contains("choices")) {
    const auto& choices = outcome.summary["choices"];
    fmt::print("choices: {} items, acc {:.4f}, acc_norm {:.4f}\n",
               choices["items"].get<std::int64_t>(), choices["acc"].get<double>(),
               choices["acc_norm"].get<double>());
  }
  return static_cast<int>(outcome.exit);
}

}  // namespace

int run_train(const Invocation& invocation) {
  const Recipe& recipe = invocation.recipe.get();
  refuse_missing_axes(recipe.parallelism);
  if (recipe.run.deterministic) env::set_mkl_reproducible();
  prepare_process(recipe.run.flush_denormals);
  if (invocation.has("explain-step")) {
    fmt::print("{}", explain_step(recipe));
    return 0;
  }
  if (invocation.dry_run) {
    print_dry_run(invocation);
    fmt::print("{}", rehearse_step(recipe));
    return 0;
  }

  if (const auto options = choose_processes(recipe)) {
    return run_as_rank(*options, [&](RankProcess& process) { return train(invocation, &process); });
  }
  return with_dist_faults("a rank thread of this process",
                          [&] { return train(invocation, nullptr); });
}

}  // namespace sx
