#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// `sextant plan mesh`: who is in which group; `sextant plan schedule` (plan_schedule.h).
int run_plan(const Invocation& invocation);

}  // namespace sx
