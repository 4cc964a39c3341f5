#pragma once

#include <string>

#include "sextant/recipe/recipe.h"

namespace sx {

/// What one step of rank 0 does, in order, one line each: hooks of units and every collective with
/// its axis, ranks and bytes.
///
/// Written down while the step runs: model and engine are those of the run, the other ranks are
/// not there (transport `fake`), the data are a few zeros. The second step is shown; the first one
/// still learns the order of units.
/// Errors: as `parallelize`.
std::string explain_step(const Recipe& recipe);

/// The same for the first and the last rank of up to 1,024, in numbers: memory by class, and per
/// axis and call how often and how many bytes a step sends.
std::string rehearse_step(const Recipe& recipe);

}  // namespace sx
