#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/launcher.h"
#include "sextant/base/result.h"

namespace sx::env {

/// The only place that reads the environment. Nothing here writes it, but for
/// `set_mkl_reproducible`.

/// Value of a variable of the closed list in env.cpp; a name outside it is a contract error.
std::optional<std::string> get(const std::string& name);
/// Value of a variable that a key names (API keys). Never logged.
std::optional<std::string> get_secret(const std::string& name);

/// Detects the launcher from this process's environment (launcher.h).
Result<LauncherFacts> detect_launcher();

bool stderr_is_terminal();
/// Colour on standard error: a terminal, no NO_COLOR, TERM not "dumb".
bool want_color();
/// Width of the terminal behind standard error, else COLUMNS, else 80.
int terminal_columns();
/// $XDG_CACHE_HOME/sextant, else $HOME/.cache/sextant.
std::string cache_dir();
/// Names of variables that begin with SEXTANT_ and that no part of Sextant reads.
std::vector<std::string> unknown_sextant_variables();
/// Variables that other libraries read (CUDA, NCCL, OpenMP, MKL, LibTorch's allocator), for
/// run.json and `doctor`.
std::map<std::string, std::string> reported_variables();

/// "NAME=value" for each variable of this process, with `changes` put in: what a child process is
/// started with.
std::vector<std::string> child_environment(const std::map<std::string, std::string>& changes);

/// Sets MKL_CBWR to AVX512,STRICT or AVX2,STRICT (by CPU) unless the user has set it; returns the
/// value in force, empty on a CPU with neither. MKL reads it at its first call only, so this is
/// called in `main` before the first tensor operation.
std::string set_mkl_reproducible();

}  // namespace sx::env
