// A run from its folder to its report: what happens once, around the loop over steps. A step itself
// is step.cpp, how the model is built and cut parallelize.cpp, what is written per step
// run_record.cpp.

#include "sextant/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "sextant/base/clock.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/log.h"
#include "sextant/base/run_folder.h"
#include "sextant/base/signals.h"
#include "sextant/base/version.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/ckpt/saver.h"
#include "sextant/dist/processes.h"
#include "sextant/dist/threads.h"
#include "sextant/mesh/device_mesh.h"
#include "sextant/mesh/group_plan.h"
#include "sextant/mesh/rank_order.h"
#include "sextant/shape/inventory.h"
#include "sextant/tensor/memory_tracker.h"
#include "sextant/train/evaluate.h"
#include "sextant/train/hf_start.h"
#include "sextant/train/memory_plan.h"
#include "sextant/train/model_setup.h"
#include "sextant/train/parallelize.h"
#include "sextant/train/run_record.h"
#include "sextant/train/run_report.h"
#include "sextant/train/snapshot.h"
#include "sextant/train/step.h"
#include "sextant/train/train_data.h"

namespace sx {

namespace {

constexpr const char* kDiskNext = "free space, then run the same command again";

// What the ranks share and do not change.
struct RunPlan {
  const TrainOptions& options;
  const Recipe& recipe;
  const RunFolder& folder;
  fs::path checkpoint_root;
  std::optional<fs::path> resume_from;
  fs::path hf_start;  ///< folder of Hugging Face that a fresh run takes its weights from; or empty
  const TrainData& data;
  const ModelShape& shape;
  const LrSchedule& schedule;
  DpMemory memory;  ///< predicted for a rank
  std::map<std::string, std::string> checkpoint_files;
  std::vector<ChoiceItem> choices;
};

LrDecay lr_decay(Decay decay) {
  switch (decay) {
    case Decay::kCosine: return LrDecay::kCosine;
    case Decay::kLinear: return LrDecay::kLinear;
    case Decay::kSqrt: return LrDecay::kSqrt;
    case Decay::kConstant: return LrDecay::kConstant;
  }
  return LrDecay::kConstant;
}

LrSchedule lr_schedule_of(const Recipe& recipe) {
  LrSchedule schedule;
  schedule.lr = recipe.optimizer.lr;
  schedule.total_steps = recipe.training.steps;
  schedule.warmup_steps = recipe.lr_scheduler.warmup_steps;
  schedule.decay = lr_decay(recipe.lr_scheduler.decay);
  schedule.decay_steps = recipe.lr_scheduler.decay_steps;
  schedule.min_ratio = recipe.lr_scheduler.min_ratio;
  schedule.stable_ratio = recipe.lr_scheduler.stable_ratio;
  std::vector<Diagnostic> faults;
  for (const std::string& rule : schedule.validate()) {
    faults.push_back({.exit = ExitCode::kUser,
                      .number = 3,
                      .what = "learning-rate schedule: " + rule,
                      .where = "lr_scheduler",
                      .rule = rule,
                      .next = "sextant train --help-recipe"});
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return schedule;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code code;
  return fs::equivalent(path.parent_path(), folder, code);
}

// What the run goes on from. A checkpoint of another run is only where this one begins: run again,
// it goes on from its own newest.
std::optional<fs::path> find_start(const CheckpointKeys& keys, const fs::path& root) {
  if (keys.load == "none") return std::nullopt;
  std::optional<fs::path> named;
  const auto tell = [](const std::vector<std::string>& rejected) {
    for (const std::string& line : rejected) SX_LOG(kWarn, "ckpt.invalid", "folder", line);
  };
  if (keys.load != "latest" && hf_folder_of(keys.load).empty()) {
    std::vector<std::string> rejected;
    auto found = find_checkpoint(keys.load, &rejected);
    if (!found.ok())
      throw IoError(to_diagnostic(found.error(), "sextant ckpt verify " + keys.load));
    tell(rejected);
    named = found->value_or(keys.load);
    if (lies_in(*named, root)) return named;
  }
  std::vector<std::string> rejected;
  auto newest = find_newest_checkpoint(root, false, &rejected);
  if (!newest.ok()) throw IoError(to_diagnostic(newest.error(), "sextant doctor " + root.string()));
  tell(rejected);
  if (!newest->has_value() && !rejected.empty()) {
    throw IoError(Diagnostic{.exit = ExitCode::kIo,
                             .number = 5,
                             .what = "no checkpoint of this run is whole",
                             .where = root.string(),
                             .rule = rejected.front(),
                             .next = "sextant ckpt verify " + root.string() +
                                     "/step-..., or checkpoint.load=none to begin anew"});
  }
  return newest->has_value() ? *newest : named;
}

std::map<std::string, std::string> checkpoint_files(const RunPlan& plan) {
  std::map<std::string, std::string> files{{"recipe.resolved.toml", plan.options.recipe.to_toml()},
                                           {"model.json", to_json(plan.shape).dump(2) + "\n"}};
  const fs::path tokenizer = plan.recipe.tokenizer.path;
  if (!tokenizer.empty()) {
    for (auto& [name, text] : read_tokenizer_files(tokenizer)) {
      files.emplace("tokenizer/" + name, std::move(text));
    }
  }
  for (auto& [name, text] : carried_hf_files(plan.hf_start, plan.resume_from)) {
    files.emplace("hf/" + name, std::move(text));
  }
  return files;
}

Checkpoint open_checkpoint(const fs::path& path) {
  auto checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok()) {
    throw IoError(to_diagnostic(checkpoint.error(), "sextant ckpt verify " + path.string()));
  }
  return std::move(checkpoint).value();
}

// When rank 0 asks for a checkpoint besides the last one.
class SaveClock {
 public:
  explicit SaveClock(const SaveInterval& interval) : interval_(interval) { saved(); }
  bool due(std::int64_t step) const {
    if (interval_.steps > 0) return step % interval_.steps == 0;
    return interval_.duration.value > 0 &&
           (static_cast<double>(monotonic_microseconds()) * 1e-6) - last_ >=
               interval_.duration.value;
  }
  void saved() { last_ = (static_cast<double>(monotonic_microseconds()) * 1e-6); }

 private:
  SaveInterval interval_;
  double last_ = 0;
};

// `skipped`: steps in a row, 0 when none may be.
[[noreturn]] void fail_nonfinite(const StepResult& result, std::int64_t step,
                                 std::int64_t skipped) {
  throw FatalError(Diagnostic{
      .exit = ExitCode::kNumeric,
      .number = 1,
      .what = fmt::format("loss {} and gradient norm {} at step {}", result.loss, result.grad_norm,
                          step),
      .where = "",
      .rule = skipped > 0
                  ? fmt::format("{} steps in a row were skipped, training.max_skip_steps allows {}",
                                skipped, skipped - 1)
                  : "a value is not finite; training.nonfinite is \"halt\"",
      .next = "a smaller optimizer.lr, or training.nonfinite=skip"});
}

[[noreturn]] void fail_eval_only(const std::string& what, const std::string& where) {
  throw ConfigError(
      Diagnostic{.exit = ExitCode::kUser,
                 .number = 7,
                 .what = what + " to evaluate",
                 .where = where,
                 .rule = "--eval-only needs a checkpoint of the run and held-out data",
                 .next = "leave --eval-only out to train"});
}

// The loop over steps of one rank.
class RankTrainer {
 public:
  RankTrainer(const RunPlan& plan, Communicator& world)
      : plan_(plan),
        run_{plan.recipe, world, recorder_},
        model_(parallelize(plan.shape, run_)),
        save_clock_(plan.recipe.checkpoint.interval),
        saver_(plan.checkpoint_root, world,
               {.run_id = "run",
                .keep = plan.recipe.checkpoint.keep,
                .keep_every = plan.recipe.checkpoint.keep_every,
                .loaded_from = plan.resume_from.value_or(fs::path())}) {
    model_.before_update = [this] { saver_.wait_copied(); };
    if (plan.data.train) loader_.emplace(make_train_loader(plan.data, run_));
    if (plan.data.heldout) eval_loader_.emplace(make_eval_loader(plan.data, run_));
    if (eval_loader_ && eval_loader_->num_eval_tokens() == 0) eval_loader_.reset();
    if (plan.resume_from) {
      restore(*plan.resume_from);
    } else if (!plan.hf_start.empty()) {
      start_from_hf(plan.hf_start);
    }
  }

  RunOutcome run() {
    RunRecord& record = record_.emplace(plan_.folder, plan_.recipe,
                                        RunRecord::Options{.global_rank = run_.world.global_rank(),
                                                           .world_size = run_.world.degree(),
                                                           .resumed_at = progress_.step,
                                                           .console = !plan_.options.quiet});
    const std::int64_t steps = plan_.recipe.training.steps;
    bool stopped = false;
    while (progress_.step < steps && !stopped) {
      const StepResult result = step();
      if (const auto finished = saver_.finished()) note_saved(*finished);
      stopped = result.wishes.stop;
      const bool last = progress_.step == steps;
      // Asked to stop, the save comes first: it is what the deadline is for.
      if (stopped) {
        save(/*wait=*/true);
        signals::end_stop_deadline();
      }
      const std::optional<Evaluation> evaluation = evaluate_if_due(last);
      record.write_trace(result.trace);
      const bool logged = record.logs(progress_.step) || evaluation.has_value();
      const std::vector<StepTrace> all =
          logged ? gather_traces(run_.world, result.trace) : std::vector<StepTrace>{};
      if (run_.world.coord() == 0) record.write_step(result, progress_, all, evaluation);
      if ((result.wishes.save || last) && !stopped) save(/*wait=*/last);
      outcome_.last_loss = result.loss;
      if (evaluation) outcome_.heldout = *evaluation;
    }
    end_save();
    record.flush();
    report_memory();
    if (!outcome_.heldout && eval_loader_ && !stopped) outcome_.heldout = evaluate_now();
    outcome_.stopped = stopped && progress_.step < steps;
    outcome_.progress = progress_;
    return outcome_;
  }

  RunOutcome run_eval_only() {
    if (!plan_.resume_from && plan_.hf_start.empty())
      fail_eval_only("no checkpoint", plan_.checkpoint_root.string());
    if (!eval_loader_ && plan_.choices.empty())
      fail_eval_only("no held-out data", "data.eval_paths, data.split");
    outcome_.progress = progress_;
    if (eval_loader_) outcome_.heldout = evaluate_now();
    if (!plan_.choices.empty()) {
      outcome_.choices = score_choices(run_, *model_.decoder, plan_.choices,
                                       plan_.recipe.training.micro_batch_size);
    }
    return outcome_;
  }

 private:
  void restore(const fs::path& path) {
    const Restored restored =
        restore_snapshot(open_checkpoint(path), model_, loader_ ? &*loader_ : nullptr, run_.world,
                         plan_.recipe.checkpoint);
    progress_ = restored.progress;
    outcome_.resumed_at = progress_.step;
    if (run_.world.coord() != 0) return;
    for (const std::string& name : restored.report.missing)
      SX_LOG(kWarn, "ckpt.passed_over", "tensor", name, "side", "model");
    for (const std::string& name : restored.report.unexpected)
      SX_LOG(kWarn, "ckpt.passed_over", "tensor", name, "side", "checkpoint");
    SX_LOG(kInfo, "ckpt.loaded", "step", progress_.step, "path", path.string());
  }

  void start_from_hf(const fs::path& path) {
    const HfFolder folder = open_hf_folder(path, plan_.shape.vocab_pad_to);
    load_hf_parts(folder, model_.parameters());
    model_.engine->publish();
    if (run_.world.coord() != 0) return;
    SX_LOG(kInfo, "hf.loaded", "path", path.string(), "tensors",
           static_cast<std::int64_t>(folder.params().size()));
    for (const std::string& what : hf_differences(plan_.shape, folder.shape())) {
      SX_LOG(kWarn, "hf.differs", "what", what);
    }
  }

  /// The figures of the step with the highest peak, of those that may be compared with a plan: all
  /// but the first.
  void note_memory(StepResult& result) {
    const MemoryNumbers numbers = counter_->read();
    result.trace.peak_allocated_bytes = numbers.peak_total;
    if (++num_measured_ == 1 && plan_.recipe.training.steps > 1) return;
    if (!outcome_.memory || numbers.peak_total > outcome_.memory->peak_total)
      outcome_.memory = numbers;
  }

  void report_memory() const {
    if (run_.world.coord() != 0 || !outcome_.memory) return;
    SX_LOG(kInfo, "memory.peak", "bytes", outcome_.memory->peak_total, "predicted",
           plan_.memory.allocated.bytes, "predicted_at", plan_.memory.allocated.moment);
  }

  StepResult step() {
    const std::int64_t step = progress_.step + 1;
    const StepWishes wishes{.stop = signals::stop_requested() ||
                                    (run_.world.coord() == 0 && plan_.folder.stop_requested()),
                            .save = run_.world.coord() == 0 && save_clock_.due(step)};
    counter_->reset_peaks();
    StepResult result =
        train_step(run_, model_, *loader_, step, plan_.schedule.at(progress_.step), wishes);
    note_memory(result);
    progress_.add_step(result.tokens, result.nonfinite, result.overflow);
    if (result.overflow && run_.world.coord() == 0) {
      SX_LOG(kInfo, "numeric.overflow", "step", step, "loss_scale", result.loss_scale, "next",
             model_.scaler->scale());
    }
    if (result.nonfinite) {
      const TrainingKeys& keys = plan_.recipe.training;
      if (keys.nonfinite == NonFinite::kHalt) fail_nonfinite(result, step, 0);
      if (keys.max_skip_steps > 0 && progress_.skipped_in_row > keys.max_skip_steps) {
        fail_nonfinite(result, step, progress_.skipped_in_row);
      }
      if (run_.world.coord() == 0) {
        SX_LOG(kWarn, "numeric.skip", "step", step, "loss", result.loss, "grad_norm",
               result.grad_norm);
      }
    }
    return result;
  }

  std::optional<Evaluation> evaluate_if_due(bool last) {
    if (!eval_loader_) return std::nullopt;
    const std::int64_t every = plan_.recipe.metrics.eval_every;
    if (!last && (every == 0 || progress_.step % every != 0)) return std::nullopt;
    return evaluate_now();
  }

  Evaluation evaluate_now() {
    return evaluate(run_, *model_.decoder, *eval_loader_, plan_.recipe.metrics.eval_steps);
  }

  // A save that is going on ends first, on every rank.
  void end_save() {
    auto ended = saver_.wait();
    if (!ended.ok()) note_saved(std::move(ended).error());
    if (*ended) note_saved(**ended);
    constexpr double kWorthTelling = 0.05;
    if (run_.world.coord() == 0 && saver_.waited_seconds() > kWorthTelling)
      SX_LOG(kInfo, "ckpt.waited", "step", progress_.step, "seconds", saver_.waited_seconds());
  }

  // `wait`: until it is committed; else it goes on beside the next steps.
  void save(bool wait) {
    end_save();
    CheckpointContent content = make_snapshot(
        model_, *loader_, progress_, plan_.options.recipe.fingerprint(), plan_.checkpoint_files);
    if (wait || !plan_.recipe.checkpoint.async) {
      const auto report = saver_.save(content);
      note_saved(report, report.ok() ? report->seconds : 0);
    } else {
      const auto started = saver_.start(std::move(content), CheckpointSaver::Copy::kInBackground);
      if (!started.ok()) note_saved(started.error());
    }
    save_clock_.saved();
  }

  void note_saved(const Result<SaveReport>& report) {
    note_saved(report, saver_.blocked_seconds());
  }
  void note_saved(const Result<SaveReport>& report, double blocked_seconds) {
    if (!report.ok()) throw IoError(to_diagnostic(report.error(), kDiskNext));
    if (run_.world.coord() != 0) return;
    const std::optional<std::int64_t> step = step_of(report->path.filename().string());
    record_->note_save(*report, blocked_seconds);
    SX_LOG(kInfo, "ckpt.saved", "step", step.value_or(0), "bytes", report->bytes, "path",
           report->path.string(), "seconds", report->seconds, "blocked_seconds", blocked_seconds);
  }

  const RunPlan& plan_;
  std::shared_ptr<MemoryCounter> counter_ = std::make_shared<MemoryCounter>();
  MemoryAccount account_{counter_};
  std::int64_t num_measured_ = 0;
  StepRecorder recorder_;
  RunContext run_;
  ParallelModel model_;
  std::optional<Loader> loader_;  ///< none when the call only evaluates, without data.paths
  std::optional<Loader> eval_loader_;
  TrainProgress progress_;
  RunOutcome outcome_;
  std::optional<RunRecord> record_;
  SaveClock save_clock_;
  CheckpointSaver saver_;  // behind what it copies from
};

RunPlan make_plan(const TrainOptions& options, const TrainInputs& inputs) {
  const Recipe& recipe = options.recipe.get();
  const fs::path root =
      ResolvedRecipe::expand_run(recipe.checkpoint.dir, options.folder.path().string());
  RunPlan plan{options,
               recipe,
               options.folder,
               root,
               find_start(recipe.checkpoint, root),
               {},
               inputs.data,
               inputs.shape,
               inputs.schedule,
               predict_rank_memory(recipe, inputs.shape),
               {},
               {}};
  if (!plan.resume_from) plan.hf_start = hf_folder_of(recipe.checkpoint.load);
  plan.checkpoint_files = checkpoint_files(plan);
  if (!options.choices.empty()) {
    plan.choices = value_or_throw(
        read_choice_items(options.choices, inputs.data.tokenizer, inputs.shape.max_positions),
        "sextant train --help");
  }
  return plan;
}

DeviceMesh mesh_of(const Recipe& recipe) {
  const ParallelismKeys& keys = recipe.parallelism;
  const ParallelDims dims{.pp = keys.pp,
                          .dp_replicate = keys.dp_replicate,
                          .dp_shard = keys.dp_shard.value_or(1),
                          .cp = keys.cp,
                          .tp = keys.tp,
                          .ep = keys.ep,
                          .etp = keys.etp};
  const Result<RankOrder> order = parse_rank_order(keys.rank_order, dims);
  if (!order.ok()) {
    throw ConfigError(Diagnostic{.number = 3,
                                 .what = "parallelism.rank_order: " + order.error().message,
                                 .where = "parallelism.rank_order",
                                 .rule = "an order names every axis whose degree is above 1, once",
                                 .next = "--set parallelism.rank_order=default"});
  }
  return DeviceMesh(dims, order.value());
}

// The world's own communicator, and those that the engine makes.
std::vector<GroupRequest> requests_of(const Recipe& recipe) {
  std::vector<GroupRequest> requests{{AxisSet::world(), Purpose::kControl}};
  for (const GroupRequest& each : DataComms::requests(recipe.parallelism.dp.separate_comms))
    requests.push_back(each);
  return requests;
}

// What every rank of a run must have in common before the first collective.
StartFacts start_facts(const RunPlan& plan) {
  StartFacts facts;
  facts.add("sextant", version().version);
  facts.add("commit", version().git_commit);
  facts.add("libtorch", libtorch_version());
  facts.add("recipe", plan.options.recipe.fingerprint());
  facts.add("start", plan.resume_from         ? plan.resume_from->filename().string()
                     : !plan.hf_start.empty() ? kHfPathPrefix.data() + plan.hf_start.string()
                                              : "anew");
  const GroupPlan groups(mesh_of(plan.recipe), requests_of(plan.recipe));
  std::istringstream lines(groups.text());
  for (std::string line; std::getline(lines, line);) facts.lines.push_back(line);
  return facts;
}

void log_start(const RunPlan& plan) {
  const TrainingKeys& keys = plan.recipe.training;
  SX_LOG(kInfo, plan.resume_from ? "run.resume" : "run.start", "out", plan.folder.path().string(),
         "params", num_params(plan.shape), "dp_replicate", plan.recipe.parallelism.dp_replicate,
         "dp_shard", plan.recipe.parallelism.dp_shard.value_or(1), "steps", keys.steps,
         "tokens_per_step", keys.global_batch_size * keys.seq_len, "train_tokens",
         plan.data.train ? plan.data.train->num_tokens() : 0, "heldout_tokens",
         plan.data.heldout ? plan.data.heldout->num_tokens() : 0);
}

}  // namespace

TrainInputs open_train_inputs(const Recipe& recipe) {
  TrainData data = open_train_data(recipe);
  ModelShape shape = model_shape_of(recipe, static_cast<std::int64_t>(data.tokenizer.vocab_size()));
  return {std::move(data), std::move(shape), lr_schedule_of(recipe)};
}

TrainOutcome run_training(const TrainOptions& options, const TrainInputs& inputs) {
  const double begin = (static_cast<double>(monotonic_microseconds()) * 1e-6);
  install_memory_tracker();
  const RunPlan plan = make_plan(options, inputs);
  const Recipe& recipe = plan.recipe;
  if (options.process != nullptr) options.process->check_start(start_facts(plan));
  if (!options.quiet) log_start(plan);

  RunOutcome outcome;
  const auto run_rank = [&](Communicator& ranks) {
    Communicator solo = Communicator::solo();
    const bool alone = recipe.comm.transport == TransportKind::kSolo;  // resolved: one rank
    Communicator& world = alone ? solo : ranks;
    RankTrainer trainer(plan, world);
    const RunOutcome own = options.eval_only ? trainer.run_eval_only() : trainer.run();
    if (world.coord() == 0 || options.process != nullptr) outcome = own;
  };
  if (options.process != nullptr) {
    run_rank(options.process->world());
    options.process->world().barrier();  // every rank's files are complete
  } else {
    run_ranks(recipe.parallelism.data_ranks(), run_rank,
              {.axis = AxisSet::world(),
               .purpose = Purpose::kReduce,
               .timeout = recipe.comm.timeout,
               .first_timeout = recipe.comm.first_timeout,
               .progress_threads = recipe.comm.threads_progress == ThreadsProgress::kThread ? 1 : 0,
               .intra_op_threads = intra_op_threads(recipe),
               .flush_denormals = recipe.run.flush_denormals,
               .flight_records = static_cast<std::size_t>(recipe.comm.flight_records),
               .flight_folder = plan.folder.file("flight"),
               .watch_signals = true});
  }

  outcome.predicted_memory = plan.memory;
  outcome.seconds = (static_cast<double>(monotonic_microseconds()) * 1e-6) - begin;
  TrainOutcome result;
  result.exit = outcome.stopped ? ExitCode::kRequeue : ExitCode::kOk;
  if (options.process != nullptr && options.process->facts().global_rank != 0) return result;
  if (outcome.choices) {
    const auto written = write_file_atomic(plan.folder.file("choices.jsonl"),
                                           choice_lines(plan.choices, *outcome.choices));
    if (!written.ok()) throw IoError(to_diagnostic(written.error(), kDiskNext));
  }
  result.summary = options.eval_only ? eval_summary(outcome)
                                     : write_run_report(plan.folder, options.recipe, plan.shape,
                                                        plan.data, outcome, options.command);
  return result;
}

}  // namespace sx
