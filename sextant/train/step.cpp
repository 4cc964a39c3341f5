// One training step, top to bottom. It knows neither axes nor transports: what is parallel acts
// inside ParallelModel.

#include "sextant/train/step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/diagnostic.h"
#include "sextant/shape/inventory.h"
#include "sextant/shard/grad_norm.h"

namespace sx {

namespace {

// What all ranks must know before the first backward.
struct StepHeader {
  std::int64_t loss_tokens = 0;
  std::int64_t tokens = 0;
  StepWishes wishes;
};

void check_vocabulary(const Batch& batch, std::int64_t vocab_size) {
  const auto tokens = batch.tokens();
  const auto largest = std::max_element(tokens.begin(), tokens.end());
  if (largest == tokens.end() || *largest < vocab_size) return;
  throw ConfigError(
      Diagnostic{.exit = ExitCode::kUser,
                 .number = 16,
                 .what = fmt::format("the data holds token {}, the model's vocabulary has {}",
                                     *largest, vocab_size),
                 .where = "data.paths",
                 .rule = "data is packed with the tokenizer the model is trained with",
                 .next = "set tokenizer.path to the tokenizer the data was packed with"});
}

std::vector<Microbatch> load_microbatches(RunContext& run, ParallelModel& model, Loader& loader) {
  auto span = run.recorder.span(StepPhase::kDataWait);
  std::vector<Microbatch> microbatches;
  do {
    Result<Batch> batch = loader.next();
    if (!batch.ok()) throw IoError(to_diagnostic(batch.error(), "sextant data inspect PREFIX"));
    check_vocabulary(*batch, model.decoder->shape().vocab_size);
    microbatches.push_back(to_microbatch(std::move(*batch)));
  } while (!microbatches.back().batch.cursor.last_of_step());
  return microbatches;
}

StepHeader exchange_header(RunContext& run, const std::vector<Microbatch>& microbatches,
                           const StepWishes& wishes) {
  auto span = run.recorder.span(StepPhase::kCommExposed);
  std::int64_t loss_tokens = 0;
  std::int64_t tokens = 0;
  for (const Microbatch& m : microbatches) {
    loss_tokens += static_cast<std::int64_t>(m.batch.num_loss_tokens);
    tokens += m.batch.num_rows() * m.batch.seq_len();
  }
  at::Tensor header = at::tensor({loss_tokens, tokens, static_cast<std::int64_t>(wishes.stop),
                                  static_cast<std::int64_t>(wishes.save)},
                                 at::kLong);
  run.world.start_all_reduce(header, ReduceOp::kSum, {.unit = "step header"}).wait();
  const auto* sums = header.const_data_ptr<std::int64_t>();
  return {sums[0], sums[1], {sums[2] > 0, sums[3] > 0}};
}

std::int64_t host_rss_bytes() {
  std::int64_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

Microbatch to_microbatch(Batch batch) {
  Microbatch m;
  m.batch = std::move(batch);
  const std::vector<std::int64_t> sizes{m.batch.num_rows(), m.batch.seq_len()};
  const auto view = [&](auto span, at::ScalarType dtype) {
    return at::from_blob(span.data(), sizes, at::TensorOptions().dtype(dtype));
  };
  m.input.tokens_BS = view(m.batch.tokens(), at::kInt);
  m.input.positions_BS = view(m.batch.positions(), at::kInt);
  m.input.document_ids_BS = view(m.batch.document_ids(), at::kInt);
  m.targets_BS = view(m.batch.targets(), at::kInt);
  m.loss_mask_BS = view(m.batch.loss_mask(), at::kByte);
  return m;
}

double fold_in_batch_order(Communicator& world, const std::vector<double>& per_microbatch) {
  const auto count = static_cast<std::int64_t>(per_microbatch.size());
  const at::Tensor own = at::tensor(per_microbatch, at::kDouble);
  at::Tensor all = at::empty({world.degree(), count}, at::kDouble);
  world.start_all_gather(all.view({-1}), own, {}, {.unit = "losses"}).wait();
  const auto* values = all.const_data_ptr<double>();
  double sum = 0;
  for (std::int64_t m = 0; m < count; ++m) {
    for (std::int64_t r = 0; r < world.degree(); ++r) sum += values[r * count + m];
  }
  return sum;
}

namespace {

/// The norm, whether the step may be applied, and the gradients as the optimizer takes them.
void judge_and_clip(const RunContext& run, ParallelModel& model, StepResult& result) {
  const GradNorm norm = model.engine->step_sums().norm;
  result.grad_norm = norm.norm / result.loss_scale;
  const bool finite = norm.finite && std::isfinite(result.loss);
  result.nonfinite = !finite;
  if (model.scaler) {
    result.overflow = !norm.finite && std::isfinite(result.loss) && !model.scaler->at_minimum();
    result.nonfinite = !finite && !result.overflow;
    model.scaler->update(finite);
  }
  if (!finite) return;
  if (result.loss_scale == 1.0) {
    model.engine->clip(norm.norm, run.recipe.training.grad_clip);
  } else {
    model.engine->scale_grads(clip_coefficient(result.grad_norm, run.recipe.training.grad_clip) /
                              result.loss_scale);
  }
}

}  // namespace

StepResult train_step(RunContext& run, ParallelModel& model, Loader& loader, std::int64_t step,
                      double lr, StepWishes wishes) {
  run.recorder.begin_step(step);
  run.world.session().begin_step(step);
  StepResult result;
  const std::vector<Microbatch> microbatches = load_microbatches(run, model, loader);
  const StepHeader header = exchange_header(run, microbatches, wishes);
  result.loss_tokens = header.loss_tokens;
  result.tokens = header.tokens;
  result.wishes = header.wishes;
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(header.loss_tokens, 1));
  result.loss_scale = model.scaler ? model.scaler->scale() : 1.0;
  const double backward_scale = scale * result.loss_scale;

  model.engine->begin_step();
  std::vector<double> loss_sums;
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    const Microbatch& m = microbatches[i];
    at::Tensor loss;
    model.engine->begin_microbatch(i + 1 == microbatches.size());
    {
      auto span = run.recorder.span(StepPhase::kForward);
      loss = model.decoder->loss_sum(m.input, m.targets_BS, m.loss_mask_BS,
                                     model.scaler ? backward_scale : 1.0);
      loss_sums.push_back(loss.item<double>());
    }
    auto span = run.recorder.span(StepPhase::kBackward);
    model.engine->backward(loss, backward_scale);
  }
  {
    auto span = run.recorder.span(StepPhase::kGradSync);
    model.engine->finish_grads();
    result.loss = fold_in_batch_order(run.world, loss_sums) * scale;
  }

  {
    auto span = run.recorder.span(StepPhase::kClip);
    judge_and_clip(run, model, result);
  }
  if (!result.nonfinite && !result.overflow) {
    auto span = run.recorder.span(StepPhase::kOptimizer);
    model.update(lr);
  }

  for (const TrafficRow& row : run.world.session().traffic()) {
    run.recorder.add_comm(row.axis.to_string(), to_string(row.op),
                          {.count = row.traffic.calls, .bytes = row.traffic.bytes});
  }
  run.world.session().reset_traffic();
  run.world.session().end_step();
  StepTrace& trace = result.trace = run.recorder.end_step();
  const auto seq_len = microbatches.front().batch.seq_len();
  for (const Microbatch& m : microbatches) trace.tokens += m.batch.num_rows() * seq_len;
  trace.model_flops = static_cast<std::int64_t>(
      model_flops_per_token(model.decoder->shape(), seq_len) * static_cast<double>(trace.tokens));
  trace.hardware_flops = trace.model_flops;
  trace.host_rss_bytes = host_rss_bytes();
  trace.loss = result.loss;
  trace.lr = lr;
  trace.grad_norm = result.grad_norm;
  return result;
}

}  // namespace sx
