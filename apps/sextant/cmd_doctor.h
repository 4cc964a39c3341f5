#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

int run_doctor(const Invocation& invocation);

}  // namespace sx
