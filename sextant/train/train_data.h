#pragma once

#include <cstdint>
#include <memory>

#include "sextant/data/loader.h"
#include "sextant/recipe/recipe.h"
#include "sextant/token/tokenizer.h"
#include "sextant/train/run_context.h"

namespace sx {

/// What a run reads: opened once, shared by all ranks of the process (immutable).
struct TrainData {
  Tokenizer tokenizer;
  std::shared_ptr<const Dataset> train;    ///< null when the call only evaluates, without data.paths
  std::shared_ptr<const Dataset> heldout;  ///< null when the split leaves nothing to evaluate on
};

/// Opens tokenizer and datasets of the keys tokenizer.* and data.*. Held-out data is
/// data.eval_paths, or the second part of data.split.
/// Errors:  ConfigError (no tokenizer, file not found, empty split part), IoError (corrupt file).
TrainData open_train_data(const Recipe& recipe);

/// The loader of this rank: training without end, or one evaluation pass.
Loader make_train_loader(const TrainData& data, const RunContext& run);
Loader make_eval_loader(const TrainData& data, const RunContext& run);

}  // namespace sx
