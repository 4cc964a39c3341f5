#pragma once

#include "sextant/data/recipe_data.h"
#include "sextant/train/run_context.h"

namespace sx {

/// What a run reads: opened once, shared by all ranks of the process (immutable).
using TrainData = RecipeData;

/// open_recipe_data.
TrainData open_train_data(const Recipe& recipe);

/// The loader of this rank: training (without end in the native order), or one evaluation pass.
Loader make_train_loader(const TrainData& data, const RunContext& run);
Loader make_eval_loader(const TrainData& data, const RunContext& run);

}  // namespace sx
