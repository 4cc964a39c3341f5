#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/result.h"

namespace sx::env {

enum class Launcher { kSingle, kTorchrun, kSlurm, kMpi };
const char* to_string(Launcher launcher);

/// What the launcher says about this process.
struct LauncherFacts {
  Launcher launcher = Launcher::kSingle;
  std::int64_t global_rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_world_size = 1;
  std::int64_t node_rank = 0;
  std::int64_t num_nodes = 1;
  std::string master_address;  ///< where the store is; empty with kMpi and kSingle
  int master_port = 0;         ///< 0 with kMpi and kSingle
  std::string run_id;          ///< torchrun's run id or Slurm's job id; may be empty
  std::int64_t restart_count = 0;
  bool agent_store = false;           ///< torchrun's agent hosts the store: all ranks are clients
  std::vector<std::string> warnings;  ///< one line each, for the log
};

/// Finds the launcher in a set of variables. Precedence: torchrun (RANK, WORLD_SIZE, MASTER_ADDR) >
/// Slurm (SLURM_PROCID, SLURM_STEP_ID) > MPI (OMPI_*, PMI_*, PMIX_RANK) > single. Two launchers
/// that disagree on rank or size: the higher one wins, with a warning that shows both. Errors:
/// kInvalid listing what is missing of a partial set, or the value that is out of range.
Result<LauncherFacts> detect_launcher(const std::map<std::string, std::string>& variables);

/// "launcher torchrun · world 16 · node 1/2 · local 3/8 · store tcp://n0:29500".
std::string describe(const LauncherFacts& facts);

}  // namespace sx::env
