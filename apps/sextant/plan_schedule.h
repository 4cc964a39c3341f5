#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// `sextant plan schedule`: what each rank of a pipeline does when, how long it waits and how many
/// activations it holds.
int plan_schedule(const Invocation& invocation);

}  // namespace sx
