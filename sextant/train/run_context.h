#pragma once

#include "sextant/dist/communicator.h"
#include "sextant/recipe/recipe.h"
#include "sextant/trace/step_trace.h"

namespace sx {

/// What one rank of a run works with. Passed by reference; there is no global access. Lives on the
/// rank's thread.
struct RunContext {
  const Recipe& recipe;
  Communicator& world;
  StepRecorder& recorder;
};

}  // namespace sx
