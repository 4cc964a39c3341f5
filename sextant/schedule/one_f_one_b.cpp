#include <algorithm>

#include "sextant/schedule/generators.h"

namespace sx::detail {

Schedule make_one_f_one_b(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kLoop, 1);
  const std::int32_t m = request.microbatches;
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
    const std::int32_t warm_up = std::min(request.ranks - rank - 1, m);
    std::int32_t forward = 0, backward = 0;
    while (forward < warm_up) ops.push_back({OpKind::kForward, rank, forward++});
    while (forward < m) {
      ops.push_back({OpKind::kForward, rank, forward++});
      ops.push_back({OpKind::kBackward, rank, backward++});
    }
    while (backward < m) ops.push_back({OpKind::kBackward, rank, backward++});
  }
  return schedule;
}

}  // namespace sx::detail
