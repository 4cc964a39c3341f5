#include "sextant/plan/arena_model.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace sx {
namespace {

/// The arena asks for so much more of each block, to align it (arena.cpp).
constexpr std::int64_t kOverhang = 64;

std::int64_t sum(const DpBoxes& boxes) {
  return std::accumulate(boxes.begin(), boxes.end(), std::int64_t{0});
}

}  // namespace

void ArenaModel::begin_step() {
  for (const auto& [bytes, count] : kept_) {
    held_ -= bytes * count;
    num_held_ -= count;
  }
  kept_.clear();
  most_leased_ = leased_total_;
  states_ = allocated_ = {};
  note();
}

void ArenaModel::lease(DpBox box, std::int64_t bytes) {
  if (bytes == 0) return;
  leased_[static_cast<std::size_t>(box)] += bytes;
  leased_total_ += bytes;
  most_leased_ = std::max(most_leased_, leased_total_);
  if (const auto kept = kept_.find(bytes); kept != kept_.end()) {
    if (--kept->second == 0) kept_.erase(kept);
  } else {
    while (!kept_.empty() && held_ + bytes > most_leased_) {
      const auto largest = std::prev(kept_.end());
      held_ -= largest->first;
      --num_held_;
      if (--largest->second == 0) kept_.erase(largest);
    }
    held_ += bytes;
    ++num_held_;
  }
  note();
}

void ArenaModel::end_lease(DpBox box, std::int64_t bytes) {
  if (bytes == 0) return;
  leased_[static_cast<std::size_t>(box)] -= bytes;
  leased_total_ -= bytes;
  ++kept_[bytes];
}

void ArenaModel::take(DpBox box, std::int64_t bytes) {
  other_[static_cast<std::size_t>(box)] += bytes;
  note();
}

DpBoxes ArenaModel::live() const {
  DpBoxes live = leased_;
  for (std::size_t i = 0; i < live.size(); ++i) live[i] += other_[i];
  return live;
}

void ArenaModel::note() {
  DpBoxes boxes = live();
  const std::int64_t used = sum(boxes) - boxes[static_cast<std::size_t>(DpBox::kActivations)];
  const std::int64_t spare = held_ - leased_total_ + num_held_ * kOverhang;
  const std::int64_t total = sum(boxes) + spare;
  if (used > states_.bytes) {
    DpBoxes without = boxes;
    without[static_cast<std::size_t>(DpBox::kActivations)] = 0;
    states_ = {.bytes = used, .boxes = without, .moment = moment_};
  }
  if (total > allocated_.bytes) {
    boxes[static_cast<std::size_t>(DpBox::kSpare)] = spare;
    allocated_ = {.bytes = total, .boxes = boxes, .moment = moment_};
  }
}

}  // namespace sx
