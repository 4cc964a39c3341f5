#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/schedule/generators.h"
#include "sextant/schedule/simulate.h"

namespace sx::detail {
namespace {

constexpr std::int32_t kPeriod = 6;  // slots: F, I and W of two stages

/// The uniform building block of V schedules (arXiv 2405.15362, section 3): where one microbatch's
/// ops lie, repeated every `kPeriod` slots. `offset` between neighbouring stages of F in the first
/// half, F in the second, I in the second, I in the first; `gap` where the block turns.
struct Block {
  std::array<std::int32_t, 4> offset;
  std::array<std::int32_t, 3> gap;
};

/// Slots of F0, F1, I1, I0 of microbatch 0 on a rank (0: the first half's stage, 1: the second's).
std::array<std::int32_t, 4> slots_of(const Block& block, std::int32_t ranks, std::int32_t rank) {
  const auto& [a, b, c, d] = block.offset;
  const std::int32_t last = ranks - 1, t1 = last * a + 1 + block.gap[0],
                     t2 = t1 + last * b + 1 + block.gap[1], t3 = t2 + last * c + 1 + block.gap[2];
  return {rank * a, t1 + (last - rank) * b, t2 + rank * c, t3 + (last - rank) * d};
}

bool collides(const Block& block, std::int32_t ranks) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    std::array<bool, kPeriod> used{};
    for (const std::int32_t slot : slots_of(block, ranks, rank)) {
      bool& at = used[static_cast<std::size_t>(slot % kPeriod)];
      if (at) return true;
      at = true;
    }
  }
  return false;
}

/// The ops of one rank in the order of their slots. W takes the first slot behind its I that no
/// block uses.
std::vector<Op> rank_list(const Block& block, const Schedule& schedule, std::int32_t rank) {
  const auto [f0, f1, i1, i0] = slots_of(block, schedule.ranks, rank);
  std::array<bool, kPeriod> used{};
  for (const std::int32_t slot : {f0, f1, i1, i0})
    used[static_cast<std::size_t>(slot % kPeriod)] = true;
  const auto free_after = [&](std::int32_t slot) {
    do ++slot;
    while (used[static_cast<std::size_t>(slot % kPeriod)]);
    used[static_cast<std::size_t>(slot % kPeriod)] = true;
    return slot;
  };
  const std::int32_t w1 = free_after(i1), w0 = free_after(i0);
  const std::int32_t first = rank, second = 2 * schedule.ranks - 1 - rank;
  std::vector<std::pair<std::int32_t, Op>> timed;
  for (std::int32_t m = 0; m < schedule.microbatches; ++m) {
    const std::int32_t at = m * kPeriod;
    timed.push_back({at + f0, {OpKind::kForward, first, m}});
    timed.push_back({at + f1, {OpKind::kForward, second, m}});
    timed.push_back({at + i1, {OpKind::kBackwardInput, second, m}});
    timed.push_back({at + i0, {OpKind::kBackwardInput, first, m}});
    timed.push_back({at + w1, {OpKind::kBackwardWeight, second, m}});
    timed.push_back({at + w0, {OpKind::kBackwardWeight, first, m}});
  }
  std::sort(timed.begin(), timed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Op> ops;
  for (const auto& [slot, op] : timed) ops.push_back(op);
  return ops;
}

Schedule from_block(const ScheduleRequest& request, const Block& block) {
  Schedule schedule = empty_schedule(request, Placement::kVee, 2);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank)
    schedule.ops[static_cast<std::size_t>(rank)] = rank_list(block, schedule, rank);
  return schedule;
}

/// Collision-free blocks with these offsets, small gaps first.
std::vector<Block> blocks_of(std::int32_t ranks,
                             const std::vector<std::array<std::int32_t, 4>>& offsets) {
  std::vector<Block> blocks;
  for (const auto& offset : offsets) {
    for (std::int32_t g = 0; g < kPeriod * kPeriod * kPeriod; ++g) {
      const Block block{offset, {g / kPeriod / kPeriod, g / kPeriod % kPeriod, g % kPeriod}};
      if (!collides(block, ranks)) blocks.push_back(block);
    }
  }
  const auto sum = [](const Block& b) { return b.gap[0] + b.gap[1] + b.gap[2]; };
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](const Block& a, const Block& b) { return sum(a) < sum(b); });
  return blocks;
}

/// Of the blocks with the smallest gaps the one that holds the fewest activations over 3p
/// microbatches, which is what these schedules are for; of these the fastest.
Schedule best_block(const ScheduleRequest& request,
                    const std::vector<std::array<std::int32_t, 4>>& offsets) {
  const std::vector<Block> blocks = blocks_of(request.ranks, offsets);
  SX_CHECK(!blocks.empty(), "no V block for {} ranks", request.ranks);
  constexpr std::size_t kTried = 24;
  ScheduleRequest trial = request;
  trial.microbatches = std::min(request.microbatches, 3 * std::min(request.ranks, 16));
  std::optional<std::pair<std::int32_t, std::int64_t>> least;
  const Block* best = nullptr;
  for (std::size_t i = 0; i < std::min(kTried, blocks.size()); ++i) {
    const Schedule schedule = from_block(trial, blocks[i]);
    const Result<Timeline> run = simulate(schedule, unit_times(schedule));
    SX_CHECK(run.ok(), "a V block deadlocks: {}", run.error().message);
    const std::pair cost{
        *std::max_element(run->peak_activations.begin(), run->peak_activations.end()),
        run->makespan};
    if (!least || cost < *least) {
      least = cost;
      best = &blocks[i];
    }
  }
  return from_block(request, *best);
}

}  // namespace

Schedule make_v_min(const ScheduleRequest& request) { return best_block(request, {{1, 1, 1, 1}}); }

Schedule make_v_half(const ScheduleRequest& request) {
  return best_block(request, {{2, 1, 1, 2}, {1, 2, 1, 2}});
}

}  // namespace sx::detail
