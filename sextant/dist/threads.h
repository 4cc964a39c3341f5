#pragma once

#include <cstdint>
#include <functional>

#include "sextant/base/units.h"
#include "sextant/dist/communicator.h"

namespace sx {

struct ThreadsOptions {
  AxisSet axis = AxisSet::world();
  Purpose purpose = Purpose::kControl;
  Seconds timeout{600.0};       ///< of one call
  int intra_op_threads = 1;     ///< LibTorch's threads inside one rank
  bool flush_denormals = true;  ///< set for each rank thread
};

/// Runs `body` on `world_size` rank threads of this process, each with its communicator over all of
/// them; returns when all have returned. Each thread first sets LibTorch's per-thread state
/// (intra-op threads, denormals, backward on itself).
///
/// Errors:  an exception in one rank aborts the world: the others leave their collectives with a
///          DistError in under 100 ms, and this call rethrows what the first one threw.
void run_ranks(std::int64_t world_size, const std::function<void(Communicator& world)>& body,
               const ThreadsOptions& options = {});

}  // namespace sx
