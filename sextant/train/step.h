#pragma once

#include <cstdint>
#include <vector>

#include "sextant/data/loader.h"
#include "sextant/nn/decoder.h"
#include "sextant/optim/lr_schedule.h"
#include "sextant/train/parallelize.h"
#include "sextant/train/run_context.h"

namespace sx {

/// One microbatch as tensors over the batch's own memory.
struct Microbatch {
  Batch batch;  ///< owns the memory
  DecoderInput input;
  at::Tensor targets_BS;
  at::Tensor loss_mask_BS;
};
Microbatch to_microbatch(Batch batch);

/// What this rank wants of all ranks in this step; a wish of one rank is everybody's.
struct StepWishes {
  bool stop = false;  ///< end the run after this step
  bool save = false;  ///< save a checkpoint after this step
};

/// The only result of a step; the same on every rank but for `trace`.
struct StepResult {
  StepTrace trace;
  double loss = 0;               ///< mean over the valid tokens of the global batch
  double grad_norm = 0;          ///< L2 of the whole model before clipping
  std::int64_t loss_tokens = 0;  ///< of the global batch
  std::int64_t tokens = 0;       ///< input tokens of the global batch
  bool nonfinite = false;        ///< loss or gradient is not finite: the optimizer did not step
  bool overflow = false;  ///< the gradient left fp16's range under a loss scale that can still
                          ///< shrink: no step either, but no fault
  double loss_scale = 1;  ///< of this step
  StepWishes wishes;      ///< of all ranks together
};

/// One optimizer step on this rank: its microbatches forward and backward, gradients summed over
/// ranks, norm, clip, update.
///
/// `step` counts from 1 (the number it has when done); `lr` is the rate to use. The loss is the sum
/// over valid tokens divided by their global number, known before any backward.
/// Errors:  IoError when the loader fails; ConfigError SX2-016 for a token outside the vocabulary;
///          DistError.
StepResult train_step(RunContext& run, ParallelModel& model, Loader& loader, std::int64_t step,
                      double lr, StepWishes wishes);

/// Sum over all ranks and microbatches of the values of one step, folded in the order of the global
/// batch, so that the bits depend neither on ranks nor on the cut into ranks and microbatches.
/// Collective.
double fold_in_batch_order(Communicator& world, const std::vector<double>& per_microbatch);

}  // namespace sx
