#include "sextant/schedule/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// What ops leave behind for others: an event for each stage and microbatch.
enum Event : std::uint8_t {
  kForwardDone,
  kGradDone,
  kForwardSent,
  kGradSent,
  kForwardAsked,
  kGradAsked
};
constexpr int kNumEvents = 6;

constexpr std::int64_t kNotYet = -1;
constexpr std::int32_t kNobody = -1;

class Simulation {
 public:
  Simulation(const Schedule& schedule, const SimulateOptions& options)
      : schedule_(schedule),
        options_(options),
        comm_(schedule.has_comm()),
        size_(static_cast<std::size_t>(schedule.num_stages()) *
              static_cast<std::size_t>(schedule.microbatches)),
        ranks_(schedule.ops.size()) {
    for (auto& times : event_) times.assign(size_, kNotYet);
    for (auto& waiter : waiter_) waiter.assign(size_, kNobody);
    if (options.spans) spans_.resize(ranks_.size());
  }

  Result<Timeline> run() {
    SX_TRY_VOID(check_ops());
    std::vector<std::int32_t> runnable;
    for (std::int32_t rank = schedule_.ranks; rank-- > 0;) runnable.push_back(rank);
    while (!runnable.empty()) {
      const std::int32_t rank = runnable.back();
      runnable.pop_back();
      advance(rank, runnable);
    }
    SX_TRY_VOID(check_finished());
    return timeline();
  }

 private:
  struct Rank {
    std::size_t position = 0;
    bool asked = false;  ///< the op at `position` has announced itself to its blocking partner
    std::int64_t clock = 0;
    std::int64_t first = kNotYet;
    std::int64_t work = 0;
    std::int32_t live = 0;
    std::int32_t peak = 0;
  };
  struct Need {
    Event event;
    std::size_t index;
    bool remote;
  };

  std::size_t index(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  const StageTimes& times(std::int32_t stage) const {
    return options_.times.size() == 1 ? options_.times[0]
                                      : options_.times[static_cast<std::size_t>(stage)];
  }

  Result<void> check_ops() const {
    SX_CHECK(options_.times.size() == 1 ||
                 options_.times.size() == static_cast<std::size_t>(schedule_.num_stages()),
             "{} durations for {} stages", options_.times.size(), schedule_.num_stages());
    if (ranks_.size() != static_cast<std::size_t>(schedule_.ranks)) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("{} lists for {} ranks", ranks_.size(), schedule_.ranks),
                   {}};
    }
    for (const std::vector<Op>& ops : schedule_.ops) {
      for (const Op& op : ops) {
        if (op.stage < 0 || op.stage >= schedule_.num_stages() || op.microbatch < 0 ||
            op.microbatch >= schedule_.microbatches) {
          return Error{ErrorKind::kInvalid,
                       fmt::format("{} is outside {} stages and {} microbatches", op.to_string(),
                                   schedule_.num_stages(), schedule_.microbatches),
                       {}};
        }
      }
    }
    return {};
  }

  /// What another rank, or an op before on this one, must have done.
  std::optional<Need> need_of(std::int32_t rank, const Op& op) const {
    const bool last = op.stage == schedule_.num_stages() - 1;
    const auto from = [&](std::int32_t stage, Event event) -> std::optional<Need> {
      const bool remote = schedule_.rank_of(stage, op.microbatch) != rank;
      if (remote && comm_) return std::nullopt;  // the receive before it has waited
      return Need{event, index(stage, op.microbatch), remote};
    };
    switch (op.kind) {
      case OpKind::kForward: return op.stage == 0 ? std::nullopt : from(op.stage - 1, kForwardDone);
      case OpKind::kBackward:
      case OpKind::kBackwardInput: return last ? std::nullopt : from(op.stage + 1, kGradDone);
      case OpKind::kRecvForward:
        if (op.stage == 0) return std::nullopt;
        return Need{kForwardSent, index(op.stage - 1, op.microbatch), true};
      case OpKind::kRecvBackward:
        if (last) return std::nullopt;
        return Need{kGradSent, index(op.stage + 1, op.microbatch), true};
      case OpKind::kSendForward:
        if (!options_.blocking_sends || last) return std::nullopt;
        return Need{kForwardAsked, index(op.stage + 1, op.microbatch), false};
      case OpKind::kSendBackward:
        if (!options_.blocking_sends || op.stage == 0) return std::nullopt;
        return Need{kGradAsked, index(op.stage - 1, op.microbatch), false};
      default: return std::nullopt;
    }
  }

  void signal(Event event, std::size_t at, std::int64_t time, std::vector<std::int32_t>& runnable) {
    event_[event][at] = time;
    if (std::int32_t& waiter = waiter_[event][at]; waiter != kNobody) {
      runnable.push_back(waiter);
      waiter = kNobody;
    }
  }

  /// With blocking sends both sides of a transfer announce themselves on arrival.
  void announce(const Op& op, Rank& state, std::vector<std::int32_t>& runnable) {
    if (!options_.blocking_sends || state.asked) return;
    state.asked = true;
    const std::size_t at = index(op.stage, op.microbatch);
    if (op.kind == OpKind::kRecvForward) signal(kForwardAsked, at, state.clock, runnable);
    if (op.kind == OpKind::kRecvBackward) signal(kGradAsked, at, state.clock, runnable);
    if (op.kind == OpKind::kSendForward) signal(kForwardSent, at, state.clock, runnable);
    if (op.kind == OpKind::kSendBackward) signal(kGradSent, at, state.clock, runnable);
  }

  void advance(std::int32_t rank, std::vector<std::int32_t>& runnable) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const std::vector<Op>& ops = schedule_.ops[static_cast<std::size_t>(rank)];
    for (; state.position < ops.size(); ++state.position, state.asked = false) {
      const Op& op = ops[state.position];
      announce(op, state, runnable);
      std::int64_t begin = state.clock;
      if (const std::optional<Need> need = need_of(rank, op)) {
        const std::int64_t done = event_[need->event][need->index];
        if (done == kNotYet) {
          waiter_[need->event][need->index] = rank;
          return;
        }
        begin = std::max(begin, done + (need->remote ? options_.transfer : 0));
      }
      run_op(op, state, begin, runnable);
      if (options_.spans) spans_[static_cast<std::size_t>(rank)].push_back({begin, state.clock});
    }
  }

  void run_op(const Op& op, Rank& state, std::int64_t begin, std::vector<std::int32_t>& runnable) {
    const StageTimes& t = times(op.stage);
    const std::size_t at = index(op.stage, op.microbatch);
    std::int64_t length = 0;
    switch (op.kind) {
      case OpKind::kForward: length = t.forward; break;
      case OpKind::kBackward: length = t.input + t.weight; break;
      case OpKind::kBackwardInput: length = t.input; break;
      case OpKind::kBackwardWeight: length = t.weight; break;
      default: break;
    }
    state.clock = begin + length;
    if (is_compute(op.kind)) {
      if (state.first == kNotYet) state.first = begin;
      state.work += length;
    }
    switch (op.kind) {
      case OpKind::kForward:
        state.peak = std::max(state.peak, ++state.live);
        signal(kForwardDone, at, state.clock, runnable);
        break;
      case OpKind::kBackward:
        --state.live;
        signal(kGradDone, at, state.clock, runnable);
        break;
      case OpKind::kBackwardInput: signal(kGradDone, at, state.clock, runnable); break;
      case OpKind::kBackwardWeight: --state.live; break;
      case OpKind::kSendForward:
        if (!options_.blocking_sends) signal(kForwardSent, at, state.clock, runnable);
        break;
      case OpKind::kSendBackward:
        if (!options_.blocking_sends) signal(kGradSent, at, state.clock, runnable);
        break;
      default: break;
    }
  }

  Result<void> check_finished() const {
    std::string waits;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].position == schedule_.ops[rank].size()) continue;
      const Op& op = schedule_.ops[rank][ranks_[rank].position];
      waits += fmt::format("{}rank {} at its op {}, {}", waits.empty() ? "" : "; ", rank,
                           ranks_[rank].position, op.to_string());
    }
    if (waits.empty()) return {};
    return Error{ErrorKind::kInvalid, "deadlock: " + waits, {}};
  }

  Timeline timeline() {
    Timeline out;
    std::int64_t busiest = 0;
    for (const Rank& rank : ranks_) {
      out.makespan = std::max(out.makespan, rank.clock);
      busiest = std::max(busiest, rank.work);
      out.idle.push_back(rank.first == kNotYet ? 0 : rank.clock - rank.first - rank.work);
      out.peak_activations.push_back(rank.peak);
    }
    out.excess = out.makespan - busiest;
    out.spans = std::move(spans_);
    return out;
  }

  const Schedule& schedule_;
  const SimulateOptions& options_;
  bool comm_;
  std::size_t size_;
  std::vector<Rank> ranks_;
  std::array<std::vector<std::int64_t>, kNumEvents> event_;  ///< when, by stage and microbatch
  std::array<std::vector<std::int32_t>, kNumEvents> waiter_;
  std::vector<std::vector<Span>> spans_;
};

}  // namespace

Result<Timeline> simulate(const Schedule& schedule, const SimulateOptions& options) {
  return Simulation(schedule, options).run();
}

SimulateOptions unit_times(const Schedule& schedule, std::int64_t unit) {
  const std::int64_t part =
      unit * schedule.ranks / std::max<std::int64_t>(1, schedule.num_stages());
  return {.times = {{.forward = part, .input = part, .weight = part}}};
}

}  // namespace sx
