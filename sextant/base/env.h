#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/result.h"

namespace sx::env {

/// The only place that reads the environment. Nothing here writes it, but for
/// `set_mkl_reproducible`.

/// Value of a variable of the closed list in env.cpp; a name outside it is a contract error.
std::optional<std::string> get(const std::string& name);
/// Value of a variable that a key names (API keys). Never logged.
std::optional<std::string> get_secret(const std::string& name);

enum class Launcher { kSingle, kTorchrun, kSlurm, kMpi };
const char* to_string(Launcher launcher);

/// What the launcher says about this process.
struct LauncherFacts {
  Launcher launcher = Launcher::kSingle;
  std::int64_t global_rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_world_size = 1;
  std::string master_address;
  int master_port = 0;
  std::int64_t restart_count = 0;
};

/// Precedence torchrun > Slurm > MPI > single. Errors: kInvalid listing what is missing of a
/// partial set.
Result<LauncherFacts> detect_launcher();
/// The same over a given set of variables, for tests.
Result<LauncherFacts> detect_launcher(const std::map<std::string, std::string>& variables);

bool stderr_is_terminal();
/// Colour on standard error: a terminal, no NO_COLOR, TERM not "dumb".
bool want_color();
int terminal_columns();
/// $XDG_CACHE_HOME/sextant, else $HOME/.cache/sextant.
std::string cache_dir();
/// Names of variables that begin with SEXTANT_ and that no part of Sextant reads.
std::vector<std::string> unknown_sextant_variables();

/// Sets MKL_CBWR to AVX512,STRICT or AVX2,STRICT (by CPU) unless the user has set it; returns the
/// value in force. MKL reads it at its first call only, so this is called in `main` before the
/// first tensor operation.
std::string set_mkl_reproducible();

}  // namespace sx::env
