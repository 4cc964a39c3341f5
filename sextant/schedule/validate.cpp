#include "sextant/schedule/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>

#include "sextant/schedule/simulate.h"

namespace sx {
namespace {

constexpr std::size_t kMostFaults = 20;
constexpr std::int64_t kAbsent = -1;

class Validation {
 public:
  explicit Validation(const Schedule& schedule) : schedule_(schedule) {
    const std::size_t size = static_cast<std::size_t>(schedule.num_stages()) *
                             static_cast<std::size_t>(schedule.microbatches);
    for (auto& places : place_) places.assign(size, kAbsent);
  }

  std::vector<std::string> run(bool blocking_sends) {
    if (!shape_is_sound()) return finish();
    find_places();
    for (std::int32_t stage = 0; stage < schedule_.num_stages(); ++stage) {
      for (std::int32_t m = 0; m < schedule_.microbatches; ++m) check_compute(stage, m);
    }
    check_weight_order();
    check_parameters();
    if (schedule_.has_comm()) check_transfers();
    if (faults_.empty()) check_end(blocking_sends);
    return finish();
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> text, Args&&... args) {
    ++count_;
    if (faults_.size() < kMostFaults)
      faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::vector<std::string> finish() {
    if (count_ > faults_.size())
      faults_.push_back(fmt::format("and {} more", count_ - faults_.size()));
    return std::move(faults_);
  }

  std::size_t index(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  std::int64_t place(OpKind kind, std::int32_t stage, std::int32_t microbatch) const {
    return place_[static_cast<std::size_t>(kind)][index(stage, microbatch)];
  }
  std::string name(OpKind kind, std::int32_t stage, std::int32_t microbatch) const {
    return Op{kind, stage, microbatch}.to_string();
  }

  bool shape_is_sound() {
    if (schedule_.ops.size() != static_cast<std::size_t>(schedule_.ranks))
      fault("{} lists for {} ranks", schedule_.ops.size(), schedule_.ranks);
    for (std::size_t rank = 0; rank < schedule_.ops.size(); ++rank) {
      for (const Op& op : schedule_.ops[rank]) {
        if (op.stage < 0 || op.stage >= schedule_.num_stages() || op.microbatch < 0 ||
            op.microbatch >= schedule_.microbatches) {
          fault("rank {}: {} is outside {} stages and {} microbatches", rank, op.to_string(),
                schedule_.num_stages(), schedule_.microbatches);
        }
      }
    }
    return faults_.empty();
  }

  void find_places() {
    for (std::size_t rank = 0; rank < schedule_.ops.size(); ++rank) {
      for (std::size_t i = 0; i < schedule_.ops[rank].size(); ++i) {
        const Op& op = schedule_.ops[rank][i];
        if (!has_microbatch(op.kind)) continue;
        if (schedule_.rank_of(op.stage, op.microbatch) != static_cast<std::int32_t>(rank)) {
          fault("rank {}: {} belongs to rank {}", rank, op.to_string(),
                schedule_.rank_of(op.stage, op.microbatch));
          continue;
        }
        std::int64_t& at =
            place_[static_cast<std::size_t>(op.kind)][index(op.stage, op.microbatch)];
        if (at != kAbsent) fault("rank {}: {} stands twice", rank, op.to_string());
        at = static_cast<std::int64_t>(i);
        if (op.overlap && !overlaps_with_next(schedule_.ops[rank], i))
          fault("rank {}: {} has nothing to overlap with", rank, op.to_string());
      }
    }
  }

  static bool overlaps_with_next(const std::vector<Op>& ops, std::size_t i) {
    if (ops[i].kind != OpKind::kForward || i + 1 == ops.size()) return false;
    const Op& next = ops[i + 1];
    return !next.overlap &&
           (next.kind == OpKind::kBackward || next.kind == OpKind::kBackwardInput) &&
           (next.stage != ops[i].stage || next.microbatch != ops[i].microbatch);
  }

  void check_compute(std::int32_t stage, std::int32_t m) {
    const std::int64_t f = place(OpKind::kForward, stage, m),
                       b = place(OpKind::kBackward, stage, m),
                       i = place(OpKind::kBackwardInput, stage, m),
                       w = place(OpKind::kBackwardWeight, stage, m);
    if (f == kAbsent) fault("{} is missing", name(OpKind::kForward, stage, m));
    if (b != kAbsent && (i != kAbsent || w != kAbsent))
      fault("{} stands beside a backward in two parts", name(OpKind::kBackward, stage, m));
    if (b == kAbsent && i == kAbsent && w == kAbsent) {
      fault("{} is missing", name(OpKind::kBackward, stage, m));
    } else if (b == kAbsent && (i == kAbsent || w == kAbsent)) {
      fault("{} is missing",
            name(i == kAbsent ? OpKind::kBackwardInput : OpKind::kBackwardWeight, stage, m));
    }
    const std::int64_t gradient = b != kAbsent ? b : i;
    if (gradient != kAbsent && f != kAbsent && gradient < f)
      fault("the backward of {} stands before it", name(OpKind::kForward, stage, m));
    if (w != kAbsent && i != kAbsent && w < i)
      fault("{} stands before its I", name(OpKind::kBackwardWeight, stage, m));
  }

  /// The order in which gradients are summed is that of accumulation on one rank.
  void check_weight_order() {
    for (std::size_t rank = 0; rank < schedule_.ops.size(); ++rank) {
      std::map<std::int32_t, std::int32_t> last;  // microbatch, by stage
      for (const Op& op : schedule_.ops[rank]) {
        if (op.kind != OpKind::kBackward && op.kind != OpKind::kBackwardWeight) continue;
        const auto [it, first] = last.try_emplace(op.stage, op.microbatch);
        if (!first && op.microbatch < it->second)
          fault("rank {}: {} adds to the weights after microbatch {}", rank, op.to_string(),
                it->second);
        it->second = op.microbatch;
      }
    }
  }

  void check_parameters() {
    for (std::size_t rank = 0; rank < schedule_.ops.size(); ++rank) {
      std::map<std::int32_t, bool> gathered;
      std::map<std::int32_t, std::size_t> reduced, last_gradient;
      for (const Op& op : schedule_.ops[rank]) {
        if (op.kind == OpKind::kGather) gathered.try_emplace(op.stage, false);
      }
      for (std::size_t i = 0; i < schedule_.ops[rank].size(); ++i) {
        const Op& op = schedule_.ops[rank][i];
        const auto it = gathered.find(op.stage);
        if (op.kind == OpKind::kGather || op.kind == OpKind::kRelease) {
          const bool gather = op.kind == OpKind::kGather;
          if (it == gathered.end() || it->second == gather)
            fault("rank {}: {} finds the parameters {}", rank, op.to_string(),
                  gather ? "there already" : "not there");
          if (it != gathered.end()) it->second = gather;
        } else if (is_compute(op.kind) && op.kind != OpKind::kBackwardWeight &&
                   it != gathered.end() && !it->second) {
          fault("rank {}: {} needs parameters that are not gathered", rank, op.to_string());
        }
        if (op.kind == OpKind::kBackward || op.kind == OpKind::kBackwardWeight)
          last_gradient[op.stage] = i;
        if (op.kind == OpKind::kReduce && !reduced.emplace(op.stage, i).second)
          fault("rank {}: {} stands twice", rank, op.to_string());
      }
      for (const auto& [stage, at] : reduced) {
        if (at < last_gradient[stage])
          fault("rank {}: the gradients of stage {} are reduced before the last is there", rank,
                stage);
      }
    }
  }

  /// A channel is a pair of ranks and a direction; both sides must name the same transfers in turn.
  using Channel = std::tuple<std::int32_t, std::int32_t, bool>;
  using Transfer = std::pair<std::int32_t, std::int32_t>;  // sending stage, microbatch

  void check_transfers() {
    std::map<Channel, std::vector<Transfer>> sent, received;
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank) {
      for (const Op& op : schedule_.ops[static_cast<std::size_t>(rank)]) {
        const bool forward = op.kind == OpKind::kSendForward || op.kind == OpKind::kRecvForward;
        const bool send = op.kind == OpKind::kSendForward || op.kind == OpKind::kSendBackward;
        if (is_compute(op.kind) || !has_microbatch(op.kind)) continue;
        const std::int32_t other = op.stage + (forward == send ? 1 : -1);
        if (other < 0 || other >= schedule_.num_stages() ||
            schedule_.rank_of(other, op.microbatch) == rank) {
          fault("rank {}: {} has no other rank to deal with", rank, op.to_string());
          continue;
        }
        const std::int32_t peer = schedule_.rank_of(other, op.microbatch);
        if (send) {
          sent[{rank, peer, forward}].emplace_back(op.stage, op.microbatch);
        } else {
          received[{peer, rank, forward}].emplace_back(other, op.microbatch);
        }
      }
    }
    for (const auto& [channel, transfers] : sent) compare(channel, transfers, received[channel]);
    for (const auto& [channel, transfers] : received) {
      if (!sent.contains(channel)) compare(channel, {}, transfers);
    }
    for (std::int32_t stage = 0; stage + 1 < schedule_.num_stages(); ++stage) {
      for (std::int32_t m = 0; m < schedule_.microbatches; ++m) {
        if (schedule_.rank_of(stage, m) != schedule_.rank_of(stage + 1, m))
          check_transfer(stage, m);
      }
    }
  }

  void compare(const Channel& channel, const std::vector<Transfer>& sent,
               const std::vector<Transfer>& received) {
    const auto& [from, to, forward] = channel;
    const char* what = forward ? "activations" : "gradients";
    const std::size_t common = std::min(sent.size(), received.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (sent[i] == received[i]) continue;
      fault(
          "rank {} sends to {} as number {} the {} of stage {}, microbatch {}; received there: "
          "stage {}, microbatch {}",
          from, to, i, what, sent[i].first, sent[i].second, received[i].first, received[i].second);
      return;
    }
    if (sent.size() != received.size())
      fault("rank {} sends {} times {} to rank {}, which receives {}", from, sent.size(), what, to,
            received.size());
  }

  /// The transfers between a stage and the next lie behind what they carry and before its use.
  void check_transfer(std::int32_t stage, std::int32_t m) {
    const auto behind = [&](OpKind later, std::int32_t later_stage, OpKind sooner,
                            std::int32_t sooner_stage) {
      const std::int64_t a = place(sooner, sooner_stage, m), b = place(later, later_stage, m);
      if (a == kAbsent || b == kAbsent) {
        fault("{} is missing",
              a == kAbsent ? name(sooner, sooner_stage, m) : name(later, later_stage, m));
      } else if (b < a) {
        fault("{} stands before {}", name(later, later_stage, m), name(sooner, sooner_stage, m));
      }
    };
    const auto gradient = [&](std::int32_t s) {
      return place(OpKind::kBackward, s, m) != kAbsent ? OpKind::kBackward : OpKind::kBackwardInput;
    };
    behind(OpKind::kSendForward, stage, OpKind::kForward, stage);
    behind(OpKind::kForward, stage + 1, OpKind::kRecvForward, stage + 1);
    behind(OpKind::kSendBackward, stage + 1, gradient(stage + 1), stage + 1);
    behind(gradient(stage), stage, OpKind::kRecvBackward, stage);
  }

  void check_end(bool blocking_sends) {
    SimulateOptions options = unit_times(schedule_);
    for (const bool blocking : {false, true}) {
      if (blocking && !(blocking_sends && schedule_.has_comm())) continue;
      options.blocking_sends = blocking;
      const Result<Timeline> run = simulate(schedule_, options);
      if (!run.ok()) fault("{}{}", run.error().message, blocking ? " (with sends that wait)" : "");
    }
  }

  const Schedule& schedule_;
  std::array<std::vector<std::int64_t>, kNumOpKinds> place_;  ///< on its rank, by stage, microbatch
  std::vector<std::string> faults_;
  std::size_t count_ = 0;
};

}  // namespace

std::vector<std::string> validate(const Schedule& schedule, bool blocking_sends) {
  return Validation(schedule).run(blocking_sends);
}

}  // namespace sx
