#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/schedule/schedule.h"

namespace sx {

/// Durations of one stage in picoseconds; B takes input + weight.
struct StageTimes {
  std::int64_t forward = 0;
  std::int64_t input = 0;
  std::int64_t weight = 0;
};

struct SimulateOptions {
  std::vector<StageTimes> times;  ///< one for all stages, or one a stage
  std::int64_t transfer = 0;  ///< from the end of an op to where another rank can use its output
  /// A send waits until the other rank has reached the receive. Only with communication ops.
  bool blocking_sends = false;
  bool spans = false;  ///< keep when each op runs
};

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What one step takes, in picoseconds.
struct Timeline {
  std::int64_t makespan = 0;
  /// makespan less the work of the busiest rank: what the step pays for being a pipeline, the fill
  /// included. Never below (p-1) F / v.
  std::int64_t excess = 0;
  std::vector<std::int64_t> idle;  ///< by rank: waiting between its first and its last op
  /// By rank: the most activations alive at once, in stages; one lives from F to B or W.
  std::vector<std::int32_t> peak_activations;
  std::vector<std::vector<Span>> spans;  ///< as Schedule::ops; empty unless asked for
};

/// Runs the schedule with receives that wait. The two ops of an overlapping pair run one after the
/// other. Without communication ops an op waits for the op whose output it uses; with them for its
/// own rank's receive alone.
/// Errors: kInvalid for an op whose stage or microbatch does not exist, and for a deadlock: the
/// message says at which op each rank waits and for what.
Result<Timeline> simulate(const Schedule& schedule, const SimulateOptions& options);

/// F 1, I 1, W 1 for a whole rank's stages together, in units of `unit` picoseconds: the durations
/// in which published schedules are compared.
SimulateOptions unit_times(const Schedule& schedule, std::int64_t unit = 1'000'000);

}  // namespace sx
