#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sx {

enum class GatherPhase : std::uint8_t { kForward, kBackward };

/// A moment at which a unit's parameters are needed.
struct GatherEvent {
  std::size_t unit = 0;
  GatherPhase phase = GatherPhase::kForward;
  friend bool operator==(const GatherEvent&, const GatherEvent&) = default;
};

/// In which order a microbatch needs its units: recorded once, then followed, so that gathers are
/// started ahead and never for a unit that does not come.
///
/// A microbatch that leaves the recorded order is on its own from there on; what it did becomes
/// the new plan.
class GatherPlan {
 public:
  void begin_microbatch();
  /// Enters one event; false when it is not the planned one (or nothing is planned).
  bool note(GatherEvent event);
  /// Whether this microbatch has kept to the plan so far.
  bool follows() const { return follows_; }
  /// Events to come, nearest first; empty when off the plan.
  std::vector<GatherEvent> ahead() const;
  /// The next event is this one.
  bool next_is(GatherEvent event) const;
  /// True when a plan existed and this microbatch differed from it; the new order is kept.
  bool end_microbatch();

  const std::vector<GatherEvent>& events() const { return plan_; }
  bool known() const { return !plan_.empty(); }
  bool contains(GatherEvent event) const;
  /// Equal plans have equal hashes.
  std::uint64_t hash() const;
  /// "u0 u1 u2 | u2 u1 u0" with the units' names.
  static std::string describe(const std::vector<GatherEvent>& events,
                              const std::vector<std::string>& names);
  /// What this microbatch has done so far.
  const std::vector<GatherEvent>& recording() const { return recording_; }

 private:
  std::vector<GatherEvent> plan_, recording_;
  std::size_t cursor_ = 0;
  bool follows_ = false;
};

}  // namespace sx
