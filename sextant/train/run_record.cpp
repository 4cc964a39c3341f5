#include "sextant/train/run_record.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "sextant/base/console.h"
#include "sextant/base/diagnostic.h"
#include "sextant/trace/metrics.h"
#include "sextant/trace/tensorboard.h"

namespace sx {

namespace {

void check_written(const Result<void>& written) {
  if (!written.ok())
    throw IoError(to_diagnostic(written.error(), "free space, then run the same command again"));
}

template <class T>
T opened(Result<T> file) {
  if (!file.ok())
    throw IoError(to_diagnostic(file.error(), "free space, then run the same command again"));
  return std::move(file).value();
}

}  // namespace

struct RunRecord::State {
  const Recipe& recipe;
  Options options;
  StepTraceWriter traces;
  std::optional<MetricsWriter> metrics;
  std::optional<TensorBoardWriter> tensorboard;
  // Since the last logged row.
  std::int64_t window_tokens = 0;
  double window_us = 0;
  struct Save {
    double seconds, blocked_seconds;
    std::int64_t bytes;
  };
  std::optional<Save> save;
};

RunRecord::RunRecord(const RunFolder& folder, const Recipe& recipe, const Options& options)
    : state_(std::make_unique<State>(
          State{recipe, options,
                opened(StepTraceWriter::open(folder.file(step_trace_name(options.global_rank)))),
                std::nullopt, std::nullopt})) {
  if (options.global_rank != 0) return;
  if (recipe.metrics.jsonl) {
    const fs::path path = folder.file("metrics.jsonl");
    state_->metrics =
        opened(options.resumed_at > 0 ? MetricsWriter::resume(path, options.resumed_at)
                                      : MetricsWriter::create(path));
  }
  if (recipe.metrics.tensorboard) {
    state_->tensorboard = opened(TensorBoardWriter::create(folder.path(), {}));
  }
}

RunRecord::~RunRecord() = default;
RunRecord::RunRecord(RunRecord&&) noexcept = default;

bool RunRecord::logs(std::int64_t step) const {
  return step <= 10 || step % state_->recipe.metrics.log_every == 0 ||
         step == state_->recipe.training.steps;
}

void RunRecord::write_trace(const StepTrace& trace) { check_written(state_->traces.write(trace)); }

void RunRecord::write_step(const StepResult& result, const TrainProgress& progress,
                           const std::vector<StepTrace>& all_ranks,
                           const std::optional<Evaluation>& evaluation) {
  state_->window_tokens += result.tokens;
  state_->window_us += result.trace.duration_us;
  if (!logs(progress.step) && !evaluation) return;

  MetricsRow row(progress.step);
  row.set("loss", result.loss)
      .set("lr", result.trace.lr.value_or(0))
      .set("grad_norm", result.grad_norm);
  if (evaluation) {
    row.set("eval_loss", evaluation->loss).set("eval_ppl", std::exp(evaluation->loss));
  }
  row.set_count("skipped_steps", progress.skipped_steps);
  add_measurements(row, all_ranks,
                   {.tokens_total = progress.tokens,
                    .window_tokens = state_->window_tokens,
                    .window_s = state_->window_us * 1e-6,
                    .num_devices = state_->options.world_size});
  state_->window_tokens = 0;
  state_->window_us = 0;
  if (state_->save) {
    row.set("ckpt_s", state_->save->seconds)
        .set("ckpt_blocking_s", state_->save->blocked_seconds)
        .set_count("ckpt_bytes", state_->save->bytes);
    state_->save.reset();
  }
  if (state_->metrics) check_written(state_->metrics->write(row));
  if (state_->tensorboard) check_written(state_->tensorboard->write(row));
  if (state_->options.console) {
    StepLine line = step_line_of(row);
    line.nonfinite = result.nonfinite;
    line.skipped = result.nonfinite || result.overflow;
    if (const double rate = row.get("tokens_per_s").value_or(0); rate > 0) {
      const double left =
          static_cast<double>((state_->recipe.training.steps - progress.step) * result.tokens);
      line.eta_s = left / rate;
    }
    console::write_line(line.to_string());
  }
}

void RunRecord::note_save(const SaveReport& report, double blocked_seconds) {
  state_->save = {report.seconds, blocked_seconds, report.bytes};
}

void RunRecord::flush() {
  if (state_->tensorboard) check_written(state_->tensorboard->flush());
}

std::vector<StepTrace> gather_traces(Communicator& world, const StepTrace& own) {
  constexpr std::int64_t kFields = kNumStepPhases + 6;
  at::Tensor mine = at::empty({kFields}, at::kDouble);
  auto* m = mine.mutable_data_ptr<double>();
  m[0] = own.begin_us;
  m[1] = own.duration_us;
  m[2] = static_cast<double>(own.tokens);
  m[3] = static_cast<double>(own.model_flops);
  m[4] = static_cast<double>(own.peak_allocated_bytes);
  m[5] = static_cast<double>(own.host_rss_bytes);
  for (int i = 0; i < kNumStepPhases; ++i) m[6 + i] = own.phases_us[static_cast<std::size_t>(i)];
  at::Tensor all = at::empty({world.degree() * kFields}, at::kDouble);
  world.start_all_gather(all, mine, {}, {.unit = "step traces"}).wait();

  std::vector<StepTrace> traces(static_cast<std::size_t>(world.degree()), own);
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const auto* v = all.const_data_ptr<double>() + static_cast<std::int64_t>(r) * kFields;
    StepTrace& trace = traces[r];
    trace.begin_us = v[0];
    trace.duration_us = v[1];
    trace.tokens = static_cast<std::int64_t>(v[2]);
    trace.model_flops = trace.hardware_flops = static_cast<std::int64_t>(v[3]);
    trace.peak_allocated_bytes = static_cast<std::int64_t>(v[4]);
    trace.host_rss_bytes = static_cast<std::int64_t>(v[5]);
    for (int i = 0; i < kNumStepPhases; ++i)
      trace.phases_us[static_cast<std::size_t>(i)] = v[6 + i];
  }
  return traces;
}

}  // namespace sx
