#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sextant/plan/dp_plan.h"

namespace sx {

/// What the memory of data parallelism is for.
enum class DpBox : std::uint8_t {
  kParams,         ///< replicas of parameters, shards beside the masters
  kMaster,         ///< masters, unless they are the parameters themselves
  kMoments,        ///< optimizer state
  kMainGrads,      ///< gradients that live from microbatch to microbatch
  kGathered,       ///< whole parameters of units in use or fetched ahead
  kGradUnsharded,  ///< whole gradients of units on their way to a reduction
  kCommBuffers,    ///< copies for and from the wire
};
inline constexpr int kNumDpBoxes = 7;
const char* to_string(DpBox box);

/// Bytes of one rank, activations not counted. Every block is rounded up to 128 bytes.
struct DpMemory {
  using Boxes = std::array<std::int64_t, kNumDpBoxes>;
  Boxes persistent{};  ///< from the first step to the last
  Boxes at_peak{};     ///< at the moment of the highest sum
  std::int64_t peak = 0;
  std::string moment;  ///< of the peak: "backward of layers.3"

  std::int64_t persistent_total() const;
  std::int64_t of(DpBox box) const { return persistent[static_cast<std::size_t>(box)]; }
};

/// The predicted memory of a rank: persistent blocks, and the highest sum while the moments of a
/// step are replayed unit by unit: gather before use, fetch ahead, give back, collect gradients,
/// reduce the previous unit's while the next one's backward runs. The trainer's measured peak is
/// held against it (tests/equivalence). Steady state: the order of units is known.
///
/// Transient memory is that of two units whatever the depth of the model, unless units are kept or
/// gradients are summed before they are reduced.
DpMemory predict_dp_memory(const DpPlan& plan);

/// Bytes per parameter of states alone, padding and transient memory left out: the comparison that
/// papers print. 16-bit parameters with fp32 main gradients, masters and Adam: 18 replicated,
/// 6 + 12/d with the optimizer distributed over d ranks, 16/d + (nothing) sharded.
double state_bytes_per_param(const DpChoice& choice);

}  // namespace sx
