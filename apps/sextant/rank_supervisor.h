#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/exit_code.h"

namespace sx {

/// One command as several ranks of this host.
struct RankCommand {
  std::vector<std::string> words;  ///< program and arguments
  std::int64_t num_local = 1;      ///< ranks on this host
  std::int64_t world_size = 1;
  std::int64_t first_rank = 0;  ///< global rank of the first local one
  std::int64_t node = 0;
  std::int64_t num_nodes = 1;
  std::string master;  ///< host of rank 0
  int port = 0;
  std::string run_id;
  std::int64_t restart = 0;
  std::int64_t max_restarts = 0;
};

struct Attempt {
  int exit = 0;  ///< that of the first rank that failed; 75 when ranks stopped on request
  bool interrupted = false;  ///< a signal to stop came
  std::string cause;         ///< one line about a rank that ended without a word of its own

  bool may_restart() const {
    return exit != 0 && !interrupted && exit != static_cast<int>(ExitCode::kUser) &&
           exit != static_cast<int>(ExitCode::kRequeue);
  }
};

/// Starts the ranks with torchrun's variables and waits for all of them.
///
/// SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 are handed on to the ranks, which live in process groups of
/// their own and get SIGTERM when this process dies. Rank 0 keeps the terminal; lines that other
/// ranks write are passed on with their rank before them, the same line of several ranks once. When
/// one rank fails, the others, which notice it themselves, have 3 s to end, then SIGTERM, then
/// after 1.5 s SIGKILL. Errors:  IoError (a process cannot be started).
Attempt run_ranks_once(const RankCommand& command);

}  // namespace sx
