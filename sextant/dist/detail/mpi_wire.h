#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sextant/dist/wire.h"

namespace sx::detail {

struct MpiWireOptions {
  std::int64_t global_rank = 0;  ///< what the launcher's variables say; checked
  std::int64_t world_size = 1;
  std::string root_text;  ///< rank 0's word to all, such as where its store is
};

/// Starts MPI on the calling thread, which then makes every MPI call of the process. `root_text` of
/// rank 0 is put into `received` on every rank.
/// Errors:  ConfigError SX2-005 (built without MPI), FatalError SX4-001 (MPI sees another rank or
/// size than the launcher's variables).
std::unique_ptr<Wire> make_mpi_wire(const MpiWireOptions& options, std::string& received);

}  // namespace sx::detail
