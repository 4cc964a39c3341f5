#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/data/loader.h"
#include "sextant/recipe/recipe.h"
#include "sextant/train/parallelize.h"

namespace sx {

/// How far a run has come, besides weights, optimizer state and loader state.
struct TrainProgress {
  std::int64_t step = 0;            ///< optimizer steps done
  std::int64_t tokens = 0;          ///< input tokens consumed, all ranks
  std::int64_t skipped_steps = 0;   ///< in all
  std::int64_t skipped_in_row = 0;  ///< since the last step that was not skipped

  /// One step of all ranks together is done. `overflow`: skipped too, but only because the loss
  /// scale of fp16 was too large, which says nothing about the run.
  void add_step(std::int64_t step_tokens, bool skipped, bool overflow = false);
  friend bool operator==(const TrainProgress&, const TrainProgress&) = default;
};

/// Everything a checkpoint commits. The learning rate and all random numbers are pure functions of
/// seed and step, so they have no state of their own.
/// `files`: further files by relative path (recipe.resolved.toml, model.json, tokenizer/...).
CheckpointContent make_snapshot(ParallelModel& model, const Loader& loader,
                                const TrainProgress& progress, const std::string& fingerprint,
                                const std::map<std::string, std::string>& files);

/// Puts a checkpoint, saved on whatever mesh, into model, optimizer and loader (null = none, only
/// to evaluate). Collective over `world`, whose ranks compare what they got with the checksums of
/// the whole tensors. Errors:  ConfigError SX2-021 (names missing or unexpected), SX2-033 (data
/// plan changed),
///          IoError (corrupt file).
struct Restored {
  TrainProgress progress;
  LoadReport report;  ///< names that were passed over
};
Restored restore_snapshot(const Checkpoint& checkpoint, ParallelModel& model, Loader* loader,
                          Communicator& world, const CheckpointKeys& keys);

}  // namespace sx
