#pragma once

#include <string>

#include "sextant/recipe/recipe.h"

namespace sx {

/// What one step of a run does, in order, one line each: units and their hooks, and every
/// collective with its axis and bytes. Made from the model and engine that would run, without data.
std::string explain_step(const Recipe& recipe);

}  // namespace sx
