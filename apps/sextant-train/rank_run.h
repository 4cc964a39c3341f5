#pragma once

#include <functional>
#include <optional>

#include "sextant/base/launcher.h"
#include "sextant/dist/processes.h"
#include "sextant/recipe/recipe.h"

namespace sx {

/// How the ranks of a run live: as threads of this process (empty), or this process is one of them.
/// Errors:  ConfigError: SX2-008 (the launcher's variables are set in part), SX2-004 (threads asked
///          for under a launcher), SX2-005 (a transport this build lacks), SX2-010 (the launcher
///          started another number of ranks than the recipe needs).
std::optional<ProcessOptions> choose_processes(const Recipe& recipe);

/// Runs `body` as this process's rank and returns its exit code. A rank that was not the first to
/// fail prints one line and returns the first one's code.
int run_as_rank(const ProcessOptions& options, const std::function<int(RankProcess&)>& body);

/// Runs `body` and turns a DistError that leaves it into a FatalError with its number (SX4-003,
/// SX4-004, SX4-005); `where` is the second line.
int with_dist_faults(const std::string& where, const std::function<int()>& body);

}  // namespace sx
