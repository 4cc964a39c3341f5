#include <algorithm>

#include "sextant/schedule/generators.h"
#include "sextant/schedule/simulate.h"

namespace sx::detail {
namespace {

struct Turn {
  std::int32_t chunk;
  std::int32_t microbatch;
};

/// Groups of microbatches through chunk 0, then 1, and so on.
std::vector<Turn> turns_of(std::int32_t chunks, const std::vector<std::int32_t>& groups) {
  std::vector<Turn> turns;
  std::int32_t first = 0;
  for (const std::int32_t size : groups) {
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int32_t m = first; m < first + size; ++m) turns.push_back({chunk, m});
    }
    first += size;
  }
  return turns;
}

Schedule from_groups(const ScheduleRequest& request, const std::vector<std::int32_t>& groups) {
  Schedule schedule = empty_schedule(request, Placement::kLoop, request.chunks);
  const std::vector<Turn> turns = turns_of(request.chunks, groups);
  const std::size_t total = turns.size();
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
    const auto warm_up = std::min(static_cast<std::size_t>(2 * (request.ranks - rank - 1) +
                                                           (request.chunks - 1) * groups.front()),
                                  total);
    const auto push = [&](OpKind kind, const Turn& turn) {
      const std::int32_t chunk =
          kind == OpKind::kForward ? turn.chunk : request.chunks - 1 - turn.chunk;
      ops.push_back({kind, chunk * request.ranks + rank, turn.microbatch});
    };
    for (std::size_t i = 0; i < warm_up; ++i) push(OpKind::kForward, turns[i]);
    for (std::size_t i = warm_up; i < total; ++i) {
      push(OpKind::kForward, turns[i]);
      push(OpKind::kBackward, turns[i - warm_up]);
    }
    for (std::size_t i = total - warm_up; i < total; ++i) push(OpKind::kBackward, turns[i]);
  }
  return schedule;
}

}  // namespace

// A last group of fewer microbatches than ranks may deadlock (of all sizes up to 5 ranks, 4 chunks
// and 17 microbatches 27 of 582 do; Megatron-LM refuses all of them). The microbatches are then
// spread evenly over one group less, which never does.
Schedule make_interleaved(const ScheduleRequest& request) {
  const std::int32_t whole = request.microbatches / request.group,
                     rest = request.microbatches % request.group;
  std::vector<std::int32_t> groups(static_cast<std::size_t>(whole), request.group);
  if (rest == 0) return from_groups(request, groups);
  groups.push_back(rest);
  Schedule schedule = from_groups(request, groups);
  if (rest >= request.ranks || simulate(schedule, unit_times(schedule)).ok()) return schedule;
  groups.assign(static_cast<std::size_t>(whole), request.microbatches / whole);
  for (std::int32_t i = 0; i < request.microbatches % whole; ++i)
    ++groups[static_cast<std::size_t>(i)];
  return from_groups(request, groups);
}

}  // namespace sx::detail
