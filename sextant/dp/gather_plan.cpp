#include "sextant/dp/gather_plan.h"

#include <algorithm>

#include "sextant/base/hash.h"

namespace sx {

void GatherPlan::begin_microbatch() {
  recording_.clear();
  cursor_ = 0;
  follows_ = !plan_.empty();
}

bool GatherPlan::note(GatherEvent event) {
  recording_.push_back(event);
  if (!follows_) return false;
  if (cursor_ < plan_.size() && plan_[cursor_] == event) {
    ++cursor_;
    return true;
  }
  follows_ = false;
  return false;
}

std::vector<GatherEvent> GatherPlan::ahead() const {
  if (!follows_) return {};
  return {plan_.begin() + static_cast<std::ptrdiff_t>(cursor_), plan_.end()};
}

bool GatherPlan::next_is(GatherEvent event) const {
  return follows_ && cursor_ < plan_.size() && plan_[cursor_] == event;
}

bool GatherPlan::end_microbatch() {
  const bool changed = !plan_.empty() && recording_ != plan_;
  plan_ = recording_;
  follows_ = false;
  return changed;
}

bool GatherPlan::contains(GatherEvent event) const {
  return std::find(plan_.begin(), plan_.end(), event) != plan_.end();
}

std::uint64_t GatherPlan::hash() const {
  std::string text;
  for (const GatherEvent& event : plan_) {
    text += std::to_string(event.unit);
    text += event.phase == GatherPhase::kForward ? 'f' : 'b';
  }
  return xxh64(text);
}

std::string GatherPlan::describe(const std::vector<GatherEvent>& events,
                                 const std::vector<std::string>& names) {
  std::string text;
  bool backward = false;
  for (const GatherEvent& event : events) {
    if (!backward && event.phase == GatherPhase::kBackward) {
      text += "| ";
      backward = true;
    }
    text += names.at(event.unit) + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace sx
