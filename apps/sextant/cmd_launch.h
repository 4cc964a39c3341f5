#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

int run_launch(const Invocation& invocation);

}  // namespace sx
