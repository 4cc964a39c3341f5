#include "sextant/schedule/insert_comm.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

bool is_forward(const Op& op) { return op.kind == OpKind::kForward; }
bool makes_gradient(const Op& op) {
  return op.kind == OpKind::kBackward || op.kind == OpKind::kBackwardInput;
}
bool adds_to_weights(const Op& op) {
  return op.kind == OpKind::kBackward || op.kind == OpKind::kBackwardWeight;
}

/// Sends from one rank to another in one direction, in their order.
using Channel = std::tuple<std::int32_t, std::int32_t, bool>;

class Inserter {
 public:
  Inserter(const Schedule& schedule, const CommOptions& options)
      : schedule_(schedule), options_(options) {
    for (std::int32_t rank = 0; rank < schedule.ranks; ++rank) {
      for (const Op& op : list(rank)) {
        SX_CHECK(is_compute(op.kind), "rank {} has {} already", rank, op.to_string());
        if (const std::int32_t to = receiver(rank, op); to >= 0)
          sends_[{rank, to, is_forward(op)}].push_back(op);
      }
    }
  }

  Schedule run() {
    Schedule out = schedule_;
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank)
      out.ops[static_cast<std::size_t>(rank)] = with_comm(rank);
    return out;
  }

 private:
  const std::vector<Op>& list(std::int32_t rank) const {
    return schedule_.ops[static_cast<std::size_t>(rank)];
  }

  /// The rank that needs the op's output, or -1.
  std::int32_t receiver(std::int32_t rank, const Op& op) const {
    const std::int32_t stage = is_forward(op)       ? op.stage + 1
                               : makes_gradient(op) ? op.stage - 1
                                                    : -1;
    return other_rank(rank, stage, op.microbatch);
  }
  /// The rank that makes the op's input, or -1.
  std::int32_t sender(std::int32_t rank, const Op& op) const {
    const std::int32_t stage = is_forward(op)       ? op.stage - 1
                               : makes_gradient(op) ? op.stage + 1
                                                    : -1;
    return other_rank(rank, stage, op.microbatch);
  }
  std::int32_t other_rank(std::int32_t rank, std::int32_t stage, std::int32_t microbatch) const {
    if (stage < 0 || stage >= schedule_.num_stages()) return -1;
    const std::int32_t other = schedule_.rank_of(stage, microbatch);
    return other == rank ? -1 : other;
  }

  std::vector<Op> with_comm(std::int32_t rank) {
    const std::vector<Op>& ops = list(rank);
    const std::vector<bool> first = marks(ops, /*ends=*/false), last = marks(ops, /*ends=*/true);
    std::map<std::int32_t, std::size_t> last_gradient;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (adds_to_weights(ops[i])) last_gradient[ops[i].stage] = i;
    }
    std::vector<Op> out;
    for (std::size_t begin = 0, end = 0; begin < ops.size(); begin = end) {
      end = begin + (ops[begin].overlap ? 2 : 1);
      for (std::size_t i = begin; i < end; ++i) {
        receive(rank, ops[i], out);
        if (options_.gather && first[i]) out.push_back({OpKind::kGather, ops[i].stage});
      }
      out.insert(out.end(), ops.begin() + static_cast<std::ptrdiff_t>(begin),
                 ops.begin() + static_cast<std::ptrdiff_t>(end));
      for (std::size_t i = begin; i < end; ++i) {
        if (receiver(rank, ops[i]) >= 0) {
          out.push_back({is_forward(ops[i]) ? OpKind::kSendForward : OpKind::kSendBackward,
                         ops[i].stage, ops[i].microbatch});
        }
        if (options_.gather && last[i]) out.push_back({OpKind::kRelease, ops[i].stage});
        if (options_.reduce && adds_to_weights(ops[i]) && last_gradient[ops[i].stage] == i)
          out.push_back({OpKind::kReduce, ops[i].stage});
      }
    }
    return out;
  }

  /// All that the other rank sends before what the op needs, and that.
  void receive(std::int32_t rank, const Op& op, std::vector<Op>& out) {
    const std::int32_t from = sender(rank, op);
    if (from < 0) return;
    const std::vector<Op>& sends = sends_[{from, rank, is_forward(op)}];
    std::size_t& next = received_[{from, rank, is_forward(op)}];
    const std::int32_t step = is_forward(op) ? 1 : -1;
    const auto is_needed = [&](const Op& sent) {
      return sent.stage + step == op.stage && sent.microbatch == op.microbatch;
    };
    const auto begin = sends.begin() + static_cast<std::ptrdiff_t>(next);
    const auto needed = std::find_if(begin, sends.end(), is_needed);
    if (needed == sends.end()) {
      const bool there = std::any_of(sends.begin(), begin, is_needed);
      SX_CHECK(there, "rank {} never gets what {} needs", rank, op.to_string());
      return;  // received early, with what came behind it
    }
    for (auto it = begin; it <= needed; ++it) {
      out.push_back({is_forward(op) ? OpKind::kRecvForward : OpKind::kRecvBackward,
                     it->stage + step, it->microbatch});
    }
    next = static_cast<std::size_t>(needed - sends.begin()) + 1;
  }

  /// Where a stage's parameters begin (or end) to be needed without a pause. W needs none.
  static std::vector<bool> marks(const std::vector<Op>& ops, bool ends) {
    struct Run {
      std::size_t begin, end;
    };
    std::map<std::int32_t, std::vector<Run>> runs;  // by stage
    for (const bool forward : {true, false}) {
      std::int32_t current = -1;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind == OpKind::kBackwardWeight || is_forward(ops[i]) != forward) continue;
        if (ops[i].stage != current) runs[ops[i].stage].push_back({i, i});
        current = ops[i].stage;
        runs[current].back().end = i;
      }
    }
    std::vector<bool> out(ops.size(), false);
    for (auto& [stage, list] : runs) {
      std::sort(list.begin(), list.end(),
                [](const Run& a, const Run& b) { return a.begin < b.begin; });
      for (std::size_t i = 0; i < list.size();) {
        std::size_t end = list[i].end, j = i + 1;
        for (; j < list.size() && list[j].begin <= end; ++j) end = std::max(end, list[j].end);
        out[ends ? end : list[i].begin] = true;
        i = j;
      }
    }
    return out;
  }

  const Schedule& schedule_;
  const CommOptions& options_;
  std::map<Channel, std::vector<Op>> sends_;
  std::map<Channel, std::size_t> received_;
};

}  // namespace

Schedule insert_comm(const Schedule& schedule, const CommOptions& options) {
  return Inserter(schedule, options).run();
}

}  // namespace sx
