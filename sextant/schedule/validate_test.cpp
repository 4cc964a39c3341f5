#include "sextant/schedule/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "sextant/base/rng.h"
#include "sextant/schedule/insert_comm.h"
#include "sextant/schedule/simulate.h"

namespace sx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Schedule sound() { return insert_comm(make_schedule({"1f1b", 3, 1, 4, 0}).value()); }

std::vector<Op>::iterator find(std::vector<Op>& ops, const std::string& text) {
  return std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.to_string() == text; });
}

TEST(Validate, NamesWhatIsMissing) {
  Schedule schedule = make_schedule({"zb_h1", 2, 1, 2, 0}).value();
  schedule.ops[1].erase(find(schedule.ops[1], "1W1"));
  EXPECT_THAT(validate(schedule), ElementsAre("1W1 is missing"));
  schedule.ops[0].erase(find(schedule.ops[0], "0F1"));
  EXPECT_THAT(validate(schedule), ElementsAre("0F1 is missing", "1W1 is missing"));
}

TEST(Validate, FindsWhatStandsTwiceOrElsewhere) {
  Schedule schedule = make_schedule({"gpipe", 2, 1, 2, 0}).value();
  schedule.ops[0].push_back({OpKind::kForward, 0, 1});
  schedule.ops[0].push_back({OpKind::kForward, 1, 1});
  EXPECT_THAT(validate(schedule),
              ElementsAre("rank 0: 0F1 stands twice", "rank 0: 1F1 belongs to rank 1",
                          "the backward of 0F1 stands before it"));
}

TEST(Validate, GradientsAreAddedInOrder) {
  Schedule schedule = make_schedule({"gpipe", 1, 1, 3, 0}).value();
  std::swap(schedule.ops[0][3], schedule.ops[0][4]);
  EXPECT_THAT(validate(schedule),
              ElementsAre("rank 0: 0B0 adds to the weights after microbatch 1"));
}

TEST(Validate, ComparesBothSidesOfEveryChannel) {
  Schedule schedule = sound();
  std::swap(*find(schedule.ops[1], "1RECV_F0"), *find(schedule.ops[1], "1RECV_F1"));
  EXPECT_THAT(validate(schedule),
              ElementsAre(HasSubstr("rank 0 sends to 1 as number 0 the activations of stage 0, "
                                    "microbatch 0; received there: stage 0, microbatch 1"),
                          "1F0 stands before 1RECV_F0"));
  schedule = sound();
  schedule.ops[2].erase(find(schedule.ops[2], "2SEND_B3"));
  EXPECT_THAT(validate(schedule),
              ElementsAre("rank 2 sends 3 times gradients to rank 1, which receives 4",
                          "2SEND_B3 is missing"));
}

TEST(Validate, ParametersAreThereWhenUsed) {
  const Schedule plain = make_schedule({"interleaved", 2, 2, 4, 2}).value();
  Schedule schedule = insert_comm(plain, {.gather = true});
  EXPECT_THAT(validate(schedule), IsEmpty());
  schedule.ops[0].erase(find(schedule.ops[0], "0UNSHARD"));
  EXPECT_THAT(validate(schedule), Not(IsEmpty()));
  schedule = insert_comm(plain);
  const Op reduce = *find(schedule.ops[1], "1REDUCE_GRAD");
  schedule.ops[1].erase(find(schedule.ops[1], "1REDUCE_GRAD"));
  schedule.ops[1].insert(schedule.ops[1].begin(), reduce);
  EXPECT_THAT(validate(schedule),
              ElementsAre("rank 1: the gradients of stage 1 are reduced before the last is there"));
}

TEST(Validate, SaysWhereADeadlockStands) {
  Schedule schedule{.name = "by hand", .ranks = 2, .chunks = 1, .microbatches = 2, .ops = {}};
  schedule.ops = {{{OpKind::kForward, 0, 0},
                   {OpKind::kBackward, 0, 0},
                   {OpKind::kForward, 0, 1},
                   {OpKind::kBackward, 0, 1}},
                  {{OpKind::kForward, 1, 0},
                   {OpKind::kForward, 1, 1},
                   {OpKind::kBackward, 1, 0},
                   {OpKind::kBackward, 1, 1}}};
  EXPECT_THAT(validate(schedule),
              ElementsAre("deadlock: rank 0 at its op 1, 0B0; rank 1 at its op 1, 1F1"));
}

TEST(Validate, OverlapNeedsAForwardAndAnotherBackward) {
  Schedule schedule = make_schedule({"dualpipev", 2, 2, 8, 0}).value();
  EXPECT_THAT(validate(schedule), IsEmpty());
  Schedule plain = make_schedule({"1f1b", 1, 1, 2, 0}).value();
  plain.ops[0][0].overlap = true;  // 0F0 with 0B0, which needs it
  EXPECT_THAT(validate(plain), ElementsAre("rank 0: 0F0 has nothing to overlap with"));
}

// Any single op taken away, doubled or moved across another of its rank is either seen, or leaves a
// schedule that still ends in the same sums.
TEST(Validate, FindsEveryOpThatIsTakenAway) {
  const Schedule schedule =
      insert_comm(make_schedule({"zb_v", 3, 1, 6, 0}).value(), {.gather = true});
  ASSERT_THAT(validate(schedule), IsEmpty());
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ops[rank].size(); ++i) {
      const OpKind kind = schedule.ops[rank][i].kind;
      // A release less keeps memory, a reduction less is the caller's choice.
      if (kind == OpKind::kReduce) continue;
      Schedule less = schedule;
      less.ops[rank].erase(less.ops[rank].begin() + static_cast<std::ptrdiff_t>(i));
      const bool last_release =
          kind == OpKind::kRelease &&
          std::none_of(less.ops[rank].begin() + static_cast<std::ptrdiff_t>(i),
                       less.ops[rank].end(), [&](const Op& op) {
                         return op.kind == OpKind::kGather &&
                                op.stage == schedule.ops[rank][i].stage;
                       });
      if (!last_release) {
        EXPECT_THAT(validate(less), Not(IsEmpty())) << schedule.ops[rank][i].to_string();
      }
      Schedule more = schedule;
      more.ops[rank].insert(more.ops[rank].begin() + static_cast<std::ptrdiff_t>(i),
                            schedule.ops[rank][i]);
      EXPECT_THAT(validate(more), Not(IsEmpty())) << schedule.ops[rank][i].to_string();
    }
  }
}

TEST(Simulate, CountsTransfersAndStages) {
  const Schedule schedule = make_schedule({"gpipe", 2, 1, 1, 0}).value();
  const Timeline timeline =
      simulate(schedule, {.times = {{10, 20, 30}, {1, 2, 3}}, .transfer = 5, .spans = true})
          .value();
  EXPECT_EQ(timeline.makespan, 10 + 5 + 1 + 5 + 5 + 50);
  EXPECT_EQ(timeline.excess, 16);
  EXPECT_EQ(timeline.idle, (std::vector<std::int64_t>{16, 0}));
  ASSERT_EQ(timeline.spans.size(), 2U);
  EXPECT_EQ(timeline.spans[1][0].begin, 15);
  EXPECT_EQ(timeline.spans[0][1].end, 76);
}

// Peaks and idle times of a random valid order, against a simulation that steps through time.
TEST(Simulate, AgreesWithSteppingThroughTime) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStream random(seed, "simulate");
    const auto& names = schedule_names();
    const ScheduleRequest request{names[random.u64(0) % names.size()],
                                  static_cast<std::int32_t>(1 + random.u64(1) % 5), 1,
                                  static_cast<std::int32_t>(1 + random.u64(2) % 12), 0};
    const Result<Schedule> made = make_schedule(request);
    if (!made.ok()) continue;
    std::vector<StageTimes> times;
    for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(made->num_stages()); ++s) {
      times.push_back({static_cast<std::int64_t>(1 + random.u64(10 + 3 * s) % 9),
                       static_cast<std::int64_t>(1 + random.u64(11 + 3 * s) % 9),
                       static_cast<std::int64_t>(1 + random.u64(12 + 3 * s) % 9)});
    }
    const Timeline timeline = simulate(*made, {.times = times}).value();
    // One tick at a time: a rank starts its next op when the op it needs has ended.
    struct Cell {
      std::int64_t forward = -1, gradient = -1;
    };
    std::map<std::pair<std::int32_t, std::int32_t>, Cell> ended;
    std::vector<std::size_t> at(made->ops.size(), 0);
    std::vector<std::int64_t> busy_until(made->ops.size(), 0);
    std::int64_t now = 0;
    const auto is_left = [&] {
      for (std::size_t r = 0; r < at.size(); ++r) {
        if (at[r] < made->ops[r].size()) return true;
      }
      return false;
    };
    for (; is_left() && now < 100'000; ++now) {
      for (std::size_t r = 0; r < at.size(); ++r) {
        if (at[r] == made->ops[r].size() || busy_until[r] > now) continue;
        const Op& op = made->ops[r][at[r]];
        const StageTimes& t = times[static_cast<std::size_t>(op.stage)];
        const bool forward = op.kind == OpKind::kForward;
        std::int64_t needed = 0;
        if (forward && op.stage > 0) needed = ended[{op.stage - 1, op.microbatch}].forward;
        if ((op.kind == OpKind::kBackward || op.kind == OpKind::kBackwardInput) &&
            op.stage + 1 < made->num_stages()) {
          needed = ended[{op.stage + 1, op.microbatch}].gradient;
        }
        if (needed < 0 || needed > now) continue;
        busy_until[r] = now + (forward                             ? t.forward
                               : op.kind == OpKind::kBackward      ? t.input + t.weight
                               : op.kind == OpKind::kBackwardInput ? t.input
                                                                   : t.weight);
        Cell& cell = ended[{op.stage, op.microbatch}];
        if (forward) cell.forward = busy_until[r];
        if (op.kind == OpKind::kBackward || op.kind == OpKind::kBackwardInput)
          cell.gradient = busy_until[r];
        ++at[r];
      }
    }
    EXPECT_EQ(timeline.makespan, *std::max_element(busy_until.begin(), busy_until.end()))
        << request.name << " " << request.ranks << " " << request.microbatches;
  }
}

TEST(Validate, SixtyFourRanksAndAThousandMicrobatchesAreNoWork) {
  const auto begin = std::chrono::steady_clock::now();
  const Schedule schedule = insert_comm(make_schedule({"interleaved", 64, 4, 1024, 0}).value());
  EXPECT_THAT(validate(schedule), IsEmpty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 30.0);  // a goal of 1 s, measured apart
}

}  // namespace
}  // namespace sx
