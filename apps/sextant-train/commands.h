#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// The verbs of sextant-train. Each returns an exit code and throws ConfigError, IoError or
/// FatalError for faults.
int run_train(const Invocation& invocation);
int run_prof(const Invocation& invocation);
int run_ckpt(const Invocation& invocation);
int run_sample(const Invocation& invocation);

}  // namespace sx
