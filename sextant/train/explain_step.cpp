#include "sextant/train/explain_step.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sextant/base/units.h"
#include "sextant/dist/fake.h"
#include "sextant/train/memory_plan.h"
#include "sextant/train/model_setup.h"
#include "sextant/train/parallelize.h"

namespace sx {

namespace {

constexpr std::int64_t kByteVocabulary = 257;  // where the tokenizer would decide
constexpr std::int64_t kShortRow = 8;          // tokens; what is sent does not depend on them

/// Everything a rank does in one step, as lines.
class Listener {
 public:
  Listener(ParallelModel& model, Communicator& world) : world_(world) {
    for (Module* unit : model.decoder->units()) {
      const std::string name = unit->fqn().empty() ? "root (final norm and head)" : unit->fqn();
      for (const HookPoint point : kAllHookPoints) {
        unit->add_hook(point, "explain", [this, point, name](Module&, const at::Tensor&) {
          take_calls();
          if (on_) lines_.push_back(fmt::format("  {} {}", to_string(point), name));
        });
      }
    }
  }
  void say(std::string line) {
    take_calls();
    if (on_) lines_.push_back(std::move(line));
  }
  void begin() {
    take_calls();
    lines_.clear();
    on_ = true;
  }
  std::string text() {
    take_calls();
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  /// Collectives since the last time.
  void take_calls() {
    const FlightDump dump = world_.session().recorder().snapshot("");
    for (const FlightEntry& entry : dump.entries) {
      if (entry.number < next_) continue;
      next_ = entry.number + 1;
      if (!on_) continue;
      const auto group = std::find_if(dump.groups.begin(), dump.groups.end(),
                                      [&](const FlightGroup& g) { return g.id == entry.group; });
      lines_.push_back(fmt::format("    {} {} on {} ({} ranks, {}), {} x {}", entry.op, entry.unit,
                                   group->axis, group->ranks.size(), group->purpose, entry.numel,
                                   entry.dtype));
    }
  }

  Communicator& world_;
  std::vector<std::string> lines_;
  std::uint64_t next_ = 0;
  bool on_ = false;
};

void run_step(const Recipe& recipe, ParallelModel& model, std::int64_t microbatches,
              const std::function<void(std::string)>& say) {
  const at::Tensor tokens = at::zeros({1, std::min(kShortRow, recipe.training.seq_len)}, at::kLong);
  model.engine->begin_step();
  for (std::int64_t m = 0; m < microbatches; ++m) {
    say(fmt::format("microbatch {}: forward", m + 1));
    model.engine->begin_microbatch(m + 1 == microbatches);
    const at::Tensor loss = model.decoder->loss_sum({tokens, {}, {}}, tokens, {});
    say(fmt::format("microbatch {}: backward", m + 1));
    model.engine->backward(loss, 1e-3);
  }
  say("gradients complete");
  model.engine->finish_grads();
  say(fmt::format("norm and clipping at {}", recipe.training.grad_clip));
  const StepSums sums = model.engine->step_sums();
  model.engine->clip(sums.norm.norm, recipe.training.grad_clip);
  say(fmt::format("{} on {} parameters, then to all who need them", recipe.optimizer.name,
                  model.engine->owned().size()));
  model.update(0.0);
}

std::int64_t microbatches_of(const Recipe& recipe) {
  const TrainingKeys& keys = recipe.training;
  return std::max<std::int64_t>(
      1, keys.global_batch_size / (keys.micro_batch_size * recipe.parallelism.data_ranks()));
}

}  // namespace

std::string explain_step(const Recipe& recipe) {
  const std::int64_t ranks = recipe.parallelism.data_ranks();
  Communicator world = fake_world(ranks, 0, {.purpose = Purpose::kReduce});
  StepRecorder recorder;
  RunContext run{recipe, world, recorder};
  ParallelModel model = parallelize(model_shape_of(recipe, kByteVocabulary), run);
  Listener listener(model, world);
  const auto silent = [](const std::string&) {};
  run_step(recipe, model, 1, silent);
  listener.begin();
  const std::int64_t microbatches = microbatches_of(recipe);
  run_step(recipe, model, std::min<std::int64_t>(microbatches, 2),
           [&](std::string line) { listener.say(std::move(line)); });

  std::string text = fmt::format("rank 0 of {} = dp_replicate {} x dp_shard {}, {}\n", ranks,
                                 model.comms->num_replicas(), model.comms->num_shards(),
                                 preset_row(model.engine->policy().preset).name);
  for (const UnitBuffer* buffer : model.engine->buffers()) {
    text += fmt::format("buffer {}: {} parameters, layout {}, {} gathered\n", buffer->name(),
                        buffer->parameters().size(), to_string(buffer->layout().options().kind),
                        format_bytes(Bytes(buffer->gathered_bytes())));
  }
  text += fmt::format("{} microbatch(es) of {} x {} tokens{}\n", microbatches,
                      recipe.training.micro_batch_size, recipe.training.seq_len,
                      microbatches > 2 ? ", two of them shown" : "");
  text += "before: data, and an all_reduce of the step header (tokens, wishes)\n";
  text += listener.text();
  text += "hooks\n";
  for (const std::string& hook : model.decoder->describe_hooks()) {
    if (!hook.ends_with(" explain")) text += "  " + hook + "\n";
  }
  return text;
}

std::string rehearse_step(const Recipe& recipe) {
  constexpr std::int64_t kMostRanks = 1024;
  const std::int64_t ranks = recipe.parallelism.data_ranks();
  std::string text;
  if (ranks > kMostRanks) return text;
  std::set<std::int64_t> shown{0, ranks - 1};
  for (const std::int64_t rank : shown) {
    Communicator world = fake_world(ranks, rank, {.purpose = Purpose::kReduce});
    StepRecorder recorder;
    RunContext run{recipe, world, recorder};
    ParallelModel model = parallelize(model_shape_of(recipe, kByteVocabulary), run);
    const auto silent = [](const std::string&) {};
    run_step(recipe, model, 1, silent);
    world.session().reset_traffic();
    model.engine->arena().reset_peaks();
    const std::int64_t microbatches = std::min<std::int64_t>(microbatches_of(recipe), 4);
    run_step(recipe, model, microbatches, silent);
    text +=
        fmt::format("rank {} of {}, one step of {} microbatch(es)\n", rank, ranks, microbatches);
    const ArenaStats& stats = model.engine->arena().stats();
    for (int i = 0; i < kNumMemoryClasses; ++i) {
      text += fmt::format("  memory {:<10} {}\n", to_string(static_cast<MemoryClass>(i)),
                          format_bytes(Bytes(stats.peak[static_cast<std::size_t>(i)])));
    }
    std::int64_t moments = 0;
    for (const OptimParam& param : model.optimizer->params())
      moments += 2 * static_cast<std::int64_t>(param.block.nbytes());
    text += fmt::format("  memory {:<10} {}\n", "moments", format_bytes(Bytes(moments)));
    for (const TrafficRow& row : world.session().traffic()) {
      text += fmt::format("  sends  {} on {} ({}): {} calls, {}\n", to_string(row.op),
                          row.axis.to_string(), to_string(row.purpose), row.traffic.calls,
                          format_bytes(Bytes(row.traffic.bytes)));
    }
  }
  const DpMemory memory = predict_rank_memory(recipe, model_shape_of(recipe, kByteVocabulary));
  text += fmt::format("predicted peak of a rank, activations included: {}, in {}\n",
                      format_bytes(Bytes(memory.allocated.bytes)), memory.allocated.moment);
  return text;
}

}  // namespace sx
