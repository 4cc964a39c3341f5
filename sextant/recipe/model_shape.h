#pragma once

#include <cstdint>

#include "sextant/recipe/recipe.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// The shape that the group `model` of a resolved recipe describes; `vocab_size` is used where the
/// recipe leaves it to the tokenizer.
ModelShape to_model_shape(const Recipe& recipe, std::int64_t vocab_size);

}  // namespace sx
