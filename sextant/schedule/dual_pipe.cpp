#include <array>
#include <deque>

#include "sextant/schedule/generators.h"

namespace sx::detail {
namespace {

/// One rank's list. It feeds two streams of microbatches: 0 is the one that reaches the rank first.
class RankList {
 public:
  struct Stream {
    std::int32_t stage;
    std::int32_t forward;  ///< the next microbatch
    std::int32_t backward;
  };

  RankList(std::vector<Op>& ops, Stream first, Stream second)
      : ops_(ops), streams_{first, second} {}

  void forward(int stream) {
    ops_.push_back({OpKind::kForward, streams_[stream].stage, streams_[stream].forward++});
  }
  void backward(int stream) {
    ops_.push_back({OpKind::kBackward, streams_[stream].stage, streams_[stream].backward++});
  }
  /// The input's part now; the weights' part joins the queue.
  void backward_input(int stream) {
    const Op op{OpKind::kBackwardInput, streams_[stream].stage, streams_[stream].backward++};
    ops_.push_back(op);
    weights_.push_back({OpKind::kBackwardWeight, op.stage, op.microbatch});
  }
  void backward(int stream, bool split) { split ? backward_input(stream) : backward(stream); }
  void weight() {
    ops_.push_back(weights_.front());
    weights_.pop_front();
  }
  void overlapped(int forward_stream, int backward_stream) {
    forward(forward_stream);
    ops_.back().overlap = true;
    backward(backward_stream);
  }

 private:
  std::vector<Op>& ops_;
  std::array<Stream, 2> streams_;
  std::deque<Op> weights_;
};

/// The eight steps of DualPipe (arXiv 2412.19437, section 3.2.1 and its published code) for the
/// rank at `place` of `half` places, the last of which is where the two streams turn; `m`
/// microbatches in each stream.
void eight_steps(RankList& list, std::int32_t place, std::int32_t half, std::int32_t m) {
  const std::int32_t before = half - place - 1;
  for (std::int32_t i = 0; i < 2 * before; ++i) list.forward(0);
  for (std::int32_t i = 0; i <= place; ++i) {
    list.forward(0);
    list.forward(1);
  }
  for (std::int32_t i = 0; i < before; ++i) {
    list.backward_input(1);
    list.weight();
    list.forward(1);
  }
  for (std::int32_t i = 0; i < m - 2 * half + place + 1; ++i) {
    if (i == 0 && before == 0) {  // nothing to overlap with yet where the streams turn
      list.forward(0);
      list.backward(1);
    } else {
      list.overlapped(0, 1);
    }
    list.overlapped(1, 0);
  }
  for (std::int32_t i = 0; i < before; ++i) {
    list.backward(1);
    list.overlapped(1, 0);
  }
  bool split = false;  // from the middle of this step on
  for (std::int32_t i = 0; i <= place; ++i) {
    const bool middle = i == (place + 1) / 2;
    split = split || (middle && place % 2 == 1);
    list.backward(1, split);
    split = split || (middle && place % 2 == 0);
    list.backward(0, split);
  }
  for (std::int32_t i = 0; i < before; ++i) {
    list.weight();
    list.backward_input(0);
  }
  for (std::int32_t i = 0; i <= place; ++i) list.weight();
}

}  // namespace

Schedule make_dualpipe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kDual, 2);
  const std::int32_t p = request.ranks, half_m = request.microbatches / 2;
  for (std::int32_t rank = 0; rank < p; ++rank) {
    const RankList::Stream down{rank, 0, 0}, up{p - 1 - rank, half_m, half_m};
    const bool second_half = rank >= p / 2;
    RankList list(schedule.ops[static_cast<std::size_t>(rank)], second_half ? up : down,
                  second_half ? down : up);
    eight_steps(list, second_half ? p - 1 - rank : rank, p / 2, half_m);
  }
  return schedule;
}

Schedule make_dualpipev(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, Placement::kVee, 2);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    RankList list(schedule.ops[static_cast<std::size_t>(rank)], {rank, 0, 0},
                  {2 * request.ranks - 1 - rank, 0, 0});
    eight_steps(list, rank, request.ranks, request.microbatches);
  }
  return schedule;
}

}  // namespace sx::detail
