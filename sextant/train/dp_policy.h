#pragma once

#include "sextant/dp/policy.h"
#include "sextant/nn/decoder.h"
#include "sextant/recipe/recipe.h"
#include "sextant/tensor/arena.h"

namespace sx {

/// The keys parallelism.zero, .reshard_after_forward, .optimizer_over_replicas, .dp.* and
/// training.param_dtype, .reduce_dtype as the engine's policy.
/// Errors: ConfigError SX2-003 for a number of ranks or a word that means nothing.
Policy dp_policy(const Recipe& recipe);

/// The keys activation_checkpoint.*.
RecomputePlan recompute_plan(const Recipe& recipe);

/// Key comm.debug.
ArenaDebug arena_debug(const Recipe& recipe);

}  // namespace sx
