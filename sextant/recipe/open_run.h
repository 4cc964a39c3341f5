#pragma once

#include <string>
#include <vector>

#include "sextant/base/run_folder.h"
#include "sextant/recipe/command_line.h"

namespace sx {

enum class Resume {
  kNever,      ///< an existing run is refused
  kIfSame,     ///< an existing run goes on when its recipe is the same but for resumable keys
  kMustExist,  ///< as kIfSame, and a run that is not there is a fault
};

struct OpenedRun {
  RunFolder folder;
  bool resumed = false;  ///< the folder held this run already
};

/// Opens the run folder of a verb: --out, else runs/<verb>-<name>-<time>. Writes run.json,
/// recipe.resolved.toml and a copy of the recipe file in recipe.source/. Faults (ConfigError):
/// SX2-006 not empty and nothing to go on with, SX2-020 its recipe differs in keys that may not
/// (all of them), SX2-007 --resume without a run. IoError: the folder cannot be written.
OpenedRun open_run(const Invocation& invocation, Resume resume);

}  // namespace sx
