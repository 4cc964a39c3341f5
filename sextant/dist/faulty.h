#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/dist/communicator.h"

namespace sx {

/// What is made to go wrong at a call.
enum class FaultKind : std::uint8_t {
  kCrash,    ///< the call throws InjectedCrash
  kSlow,     ///< the rank sleeps for `delay` before it starts the call
  kDrop,     ///< the rank leaves the call out; its handle is done and its output as before
  kFlipBit,  ///< one bit of the rank's input is wrong
};
const char* to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  std::int64_t rank = 0;
  std::uint64_t call = 0;       ///< among the rank's calls (on `axis`), from 0
  std::optional<AxisSet> axis;  ///< only communicators of this axis count; none = all do
  Seconds delay{0.0};
  std::uint64_t bit = 0;  ///< of the input, taken modulo its length
};

/// Faults of a test run, the same for every run with the same seed.
struct FaultPlan {
  std::vector<Fault> faults;

  /// One fault of `kind` at a drawn rank, call below `num_calls` and bit.
  static FaultPlan random(std::uint64_t seed, FaultKind kind, std::int64_t world_size,
                          std::uint64_t num_calls, Seconds delay = Seconds{0.0});
  /// "crash on rank 2 at call 17".
  std::string to_string() const;
};

class InjectedCrash : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Gives the communicator the plan's faults; groups made from it later share the plan and the count
/// of calls. For tests of what happens when things break.
void with_faults(Communicator& communicator, std::shared_ptr<const FaultPlan> plan);

}  // namespace sx
