#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "sextant/dp/policy.h"
#include "sextant/plan/memory.h"
#include "sextant/recipe/recipe.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// What the engine's policy means to the planner. `dtype`: of parameters that declare none.
DpChoice dp_choice(const Policy& policy, std::int64_t num_replicas, std::int64_t num_shards,
                   std::int64_t microbatches, c10::ScalarType dtype);

/// What a rank of a run as this recipe says will hold while it trains. Rows are taken to hold
/// several documents each.
DpMemory predict_rank_memory(const Recipe& recipe, const ModelShape& shape);

}  // namespace sx
