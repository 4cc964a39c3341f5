#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// Puts the summaries of a demo's stages together: summary.json and report.html in its folder.
int run_demo_report(const Invocation& invocation);

}  // namespace sx
