#pragma once

#include <cstdint>

#include "sextant/dist/comm_options.h"
#include "sextant/dist/communicator.h"

namespace sx {

struct FakeOptions {
  /// What outputs hold afterwards. kOwn: what the rank itself has, as if all ranks had the same
  /// (all_gather repeats the own part, reduce_scatter keeps the own slice; what only others know is
  /// zero). kNothing: outputs stay as they are; for measuring the cost of calls.
  enum class Fill { kOwn, kNothing };
  Fill fill = Fill::kOwn;
  AxisSet axis = AxisSet::world();
  Purpose purpose = Purpose::kControl;
  CommOptions comm;
};

/// The world communicator of one rank of a world that is not there: every call, on it and on groups
/// made from it, is done at once and nothing is sent. Calls are checked, counted, hashed and
/// recorded as on any transport, so one process can play each rank of a large mesh in turn and read
/// what it would have sent.
Communicator fake_world(std::int64_t world_size, std::int64_t rank, FakeOptions options = {});

}  // namespace sx
