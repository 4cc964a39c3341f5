#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sextant/plan/dp_plan.h"
#include "sextant/plan/step_tape.h"

namespace sx {

/// What the memory of a training step is for.
enum class DpBox : std::uint8_t {
  kParams,         ///< replicas of parameters, shards beside the masters
  kMaster,         ///< masters, unless they are the parameters themselves
  kMoments,        ///< optimizer state
  kMainGrads,      ///< gradients that live from microbatch to microbatch
  kGathered,       ///< whole parameters of units in use or fetched ahead
  kGradUnsharded,  ///< whole gradients of units on their way to a reduction
  kCommBuffers,    ///< copies for and from the wire
  kSpare,          ///< blocks of the arena between two uses
  kActivations,    ///< what the tape takes
};
inline constexpr int kNumDpBoxes = 9;
const char* to_string(DpBox box);

using DpBoxes = std::array<std::int64_t, kNumDpBoxes>;

/// The highest sum of something over a step.
struct MemoryPeak {
  std::int64_t bytes = 0;
  DpBoxes boxes{};     ///< at that moment
  std::string moment;  ///< "backward of layers.3"
  std::int64_t of(DpBox box) const { return boxes[static_cast<std::size_t>(box)]; }
};

/// Bytes of one rank. Every block of the engine is rounded up to 128 bytes.
struct DpMemory {
  DpBoxes persistent{};  ///< from the first step to the last
  MemoryPeak states;     ///< in use by parameters, gradients, optimizer: no activations, no spares
  MemoryPeak allocated;  ///< all that the rank has taken from the allocator
  MemoryPeak first;  ///< `allocated` in the first step, when the order of units is not yet known

  std::int64_t persistent_total() const;
  std::int64_t of(DpBox box) const { return persistent[static_cast<std::size_t>(box)]; }
};

/// The predicted memory of a rank, by replaying its steps moment by moment: the engine's decisions
/// (gather before use, fetch ahead, give back, collect gradients, reduce the previous unit's while
/// the next one's backward runs), the arena's reuse of blocks, and the activations of `tape`. The
/// measured peak is held against it (tests/equivalence).
///
/// Transient memory is that of two units whatever the depth of the model, unless units are kept or
/// gradients are summed before they are reduced.
DpMemory predict_memory(const DpPlan& plan, const StepTape& tape);
/// Without activations.
DpMemory predict_dp_memory(const DpPlan& plan);

/// Bytes per parameter of states alone, padding and transient memory left out: the comparison that
/// papers print. 16-bit parameters with fp32 main gradients, masters and Adam: 18 replicated,
/// 6 + 12/d with the optimizer distributed over d ranks, 16/d + (nothing) sharded.
double state_bytes_per_param(const DpChoice& choice);

}  // namespace sx
