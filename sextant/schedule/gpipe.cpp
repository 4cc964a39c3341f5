#include "sextant/schedule/generators.h"

namespace sx::detail {

// Backward in ascending order, so that gradients are summed as accumulation on one rank sums them.
Schedule make_gpipe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kLoop, 1);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    for (const OpKind kind : {OpKind::kForward, OpKind::kBackward}) {
      for (std::int32_t m = 0; m < request.microbatches; ++m)
        schedule.ops[static_cast<std::size_t>(rank)].push_back({kind, rank, m});
    }
  }
  return schedule;
}

}  // namespace sx::detail
