#include <algorithm>

#include "sextant/schedule/generators.h"

namespace sx::detail {

// W of a microbatch waits for r further I, so that every rank holds p activations and the fill of
// 1F1B shrinks by its weight part.
Schedule make_zb_h1(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kLoop, 1);
  const std::int32_t m = request.microbatches;
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
    std::int32_t forward = 0, weight = 0;
    const std::int32_t warm_up = std::min(request.ranks - 1 - rank, m);
    while (forward < warm_up) ops.push_back({OpKind::kForward, rank, forward++});
    for (std::int32_t input = 0; input < m; ++input) {
      if (forward < m) ops.push_back({OpKind::kForward, rank, forward++});
      ops.push_back({OpKind::kBackwardInput, rank, input});
      if (input >= rank) ops.push_back({OpKind::kBackwardWeight, rank, weight++});
    }
    while (weight < m) ops.push_back({OpKind::kBackwardWeight, rank, weight++});
  }
  return schedule;
}

Schedule make_zb_h2(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kLoop, 1);
  list_schedule(schedule, 2 * request.ranks - 1);
  return schedule;
}

Schedule make_zb_v(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kVee, 2);
  list_schedule(schedule, 2 * request.ranks);
  return schedule;
}

}  // namespace sx::detail
