#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "sextant/base/units.h"
#include "sextant/dist/communicator.h"

namespace sx {

struct ThreadsOptions {
  AxisSet axis = AxisSet::world();
  Purpose purpose = Purpose::kControl;
  Seconds timeout{600.0};                ///< of one call (key comm.timeout)
  std::optional<Seconds> first_timeout;  ///< until the end of a rank's first step
  /// Threads of the world that do the work of started calls while the ranks compute (key
  /// comm.threads_progress "thread"); pays with cores to spare. 0: waiting ranks do it.
  int progress_threads = 0;
  int intra_op_threads = 1;             ///< LibTorch's threads inside one rank
  bool flush_denormals = true;          ///< set for each rank thread
  std::size_t flight_records = 4096;    ///< calls that each rank's flight recorder keeps
  std::filesystem::path flight_folder;  ///< where it is dumped; empty = nowhere
  /// Dumps the flight records when a signal asks for it or for a stop (base/signals.h), also while
  /// every rank waits.
  bool watch_signals = false;
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
