#include "sextant/train/explain_step.h"

#include <fmt/format.h>

#include "sextant/base/units.h"
#include "sextant/train/model_setup.h"
#include "sextant/train/parallelize.h"

namespace sx {

namespace {

constexpr std::int64_t kByteVocabulary = 257;  // where the tokenizer would decide

std::string collective_line(const char* op, const char* what, std::int64_t degree,
                            std::int64_t bytes) {
  if (degree == 1) return fmt::format("  {} {}: one rank, nothing is sent\n", op, what);
  return fmt::format("  {} {} on axis dp_replicate ({} ranks), {}\n", op, what, degree,
                     format_bytes(Bytes(bytes)));
}

}  // namespace

std::string explain_step(const Recipe& recipe) {
  Communicator solo = Communicator::solo();
  StepRecorder recorder;
  RunContext run{recipe, solo, recorder};
  ParallelModel model = parallelize(model_shape_of(recipe, kByteVocabulary), run);
  const std::int64_t degree = recipe.parallelism.dp_replicate;
  const TrainingKeys& keys = recipe.training;
  const std::int64_t microbatches = keys.global_batch_size / (keys.micro_batch_size * degree);

  std::string text = "1 data: next microbatches of this rank\n";
  text += collective_line("all_reduce", "step header", degree, 4 * 8);
  text +=
      fmt::format("2 forward and backward of {} microbatch(es) of {} x {} tokens, units in order\n",
                  microbatches, keys.micro_batch_size, keys.seq_len);
  for (Module* unit : model.decoder->units()) {
    text += fmt::format("  {}\n", unit->fqn().empty() ? "(final norm and head)" : unit->fqn());
  }
  for (const std::string& hook : model.decoder->describe_hooks()) text += "  hook " + hook + "\n";
  text += fmt::format(
      "3 gradients: {} bucket(s), each reduced as soon as the last microbatch has filled it\n",
      model.ddp->num_buckets());
  text += collective_line("all_reduce", "gradients", degree, model.ddp->reduce_bytes());
  text += collective_line("all_gather", "losses", degree, microbatches * degree * 8);
  text += fmt::format("4 gradient norm and clipping at {}\n", keys.grad_clip);
  text +=
      fmt::format("5 {} on {} parameters\n", recipe.optimizer.name, model.grads->slots().size());
  return text;
}

}  // namespace sx
