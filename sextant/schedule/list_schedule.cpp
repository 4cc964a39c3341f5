#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/schedule/generators.h"

namespace sx::detail {
namespace {

/// How far the stages are: F, I and W of a stage each go by ascending microbatch.
class Progress {
 public:
  Progress(const Schedule& schedule, std::int32_t cap)
      : schedule_(schedule), cap_(cap), live_(schedule.ops.size()) {
    const auto stages = static_cast<std::size_t>(schedule.num_stages());
    forward_.resize(stages);
    input_.resize(stages);
    weight_.resize(stages);
  }

  /// The best op that is ready on the rank at `now`; several instants may pass without one.
  std::optional<Op> best(std::int32_t rank, std::int64_t now) const {
    std::optional<Op> input, forward, weight;
    for (const std::int32_t stage : stages_of(rank)) {
      const auto s = static_cast<std::size_t>(stage);
      if (ready_input(stage, now) && (!input || done(input_[s]) < input->microbatch))
        input = Op{OpKind::kBackwardInput, stage, done(input_[s])};
      if (ready_forward(rank, stage, now)) forward = Op{OpKind::kForward, stage, done(forward_[s])};
      if (ready_weight(stage, now) && (!weight || done(weight_[s]) <= weight->microbatch))
        weight = Op{OpKind::kBackwardWeight, stage, done(weight_[s])};
    }
    return input ? input : forward ? forward : weight;
  }

  void start(std::int32_t rank, const Op& op, std::int64_t now) {
    auto& ends = op.kind == OpKind::kForward         ? forward_
                 : op.kind == OpKind::kBackwardInput ? input_
                                                     : weight_;
    ends[static_cast<std::size_t>(op.stage)].push_back(now + 1);
    if (op.kind == OpKind::kForward) ++live_[static_cast<std::size_t>(rank)];
    if (op.kind == OpKind::kBackwardWeight) --live_[static_cast<std::size_t>(rank)];
  }

 private:
  using Ends = std::vector<std::int64_t>;  ///< when a stage's ops of one kind end, by microbatch

  static std::int32_t done(const Ends& ends) { return static_cast<std::int32_t>(ends.size()); }
  static bool ended(const Ends& ends, std::int32_t microbatch, std::int64_t now) {
    return microbatch < done(ends) && ends[static_cast<std::size_t>(microbatch)] <= now;
  }
  const Ends& forward(std::int32_t stage) const {
    return forward_[static_cast<std::size_t>(stage)];
  }
  const Ends& input(std::int32_t stage) const { return input_[static_cast<std::size_t>(stage)]; }
  const Ends& weight(std::int32_t stage) const { return weight_[static_cast<std::size_t>(stage)]; }

  std::vector<std::int32_t> stages_of(std::int32_t rank) const {
    if (schedule_.placement == Placement::kVee) return {rank, 2 * schedule_.ranks - 1 - rank};
    return {rank};
  }
  bool ready_forward(std::int32_t rank, std::int32_t stage, std::int64_t now) const {
    const std::int32_t next = done(forward(stage));
    if (next == schedule_.microbatches) return false;
    const bool first_half = schedule_.placement == Placement::kVee && stage < schedule_.ranks;
    if (live_[static_cast<std::size_t>(rank)] >= (first_half ? cap_ - 1 : cap_)) return false;
    return stage == 0 || ended(forward(stage - 1), next, now);
  }
  bool ready_input(std::int32_t stage, std::int64_t now) const {
    const std::int32_t next = done(input(stage));
    if (next == schedule_.microbatches || !ended(forward(stage), next, now)) return false;
    return stage == schedule_.num_stages() - 1 || ended(input(stage + 1), next, now);
  }
  bool ready_weight(std::int32_t stage, std::int64_t now) const {
    const std::int32_t next = done(weight(stage));
    return next < schedule_.microbatches && ended(input(stage), next, now);
  }

  const Schedule& schedule_;
  std::int32_t cap_;
  std::vector<Ends> forward_, input_, weight_;  ///< by stage
  std::vector<std::int32_t> live_;              ///< activations, by rank
};

}  // namespace

void list_schedule(Schedule& schedule, std::int32_t cap) {
  Progress progress(schedule, cap);
  std::int64_t left = std::int64_t{3} * schedule.num_stages() * schedule.microbatches;
  for (std::int64_t now = 0; left > 0; ++now) {
    std::vector<std::pair<std::int32_t, Op>>
        started;  // seen by the others from the next instant on
    for (std::int32_t rank = 0; rank < schedule.ranks; ++rank) {
      if (const std::optional<Op> op = progress.best(rank, now)) started.emplace_back(rank, *op);
    }
    SX_CHECK(!started.empty(), "no rank can go on at {} with cap {}", now, cap);
    for (const auto& [rank, op] : started) {
      progress.start(rank, op, now);
      schedule.ops[static_cast<std::size_t>(rank)].push_back(op);
    }
    left -= static_cast<std::int64_t>(started.size());
  }
}

}  // namespace sx::detail
