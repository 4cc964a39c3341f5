#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sextant/schedule/insert_comm.h"
#include "sextant/schedule/simulate.h"
#include "sextant/schedule/validate.h"

namespace sx {
namespace {

constexpr std::int64_t kUnit = 1'000'000;

std::string row_of(const Schedule& schedule, std::size_t rank) {
  std::string text;
  for (const Op& op : schedule.ops[rank]) text += (text.empty() ? "" : " ") + op.to_string();
  return text;
}

Schedule made(const std::string& name, std::int32_t ranks, std::int32_t microbatches,
              std::int32_t chunks = 1, std::int32_t group = 0) {
  return make_schedule({name, ranks, chunks, microbatches, group}).value();
}

Timeline run(const Schedule& schedule) {
  return simulate(schedule, unit_times(schedule, kUnit)).value();
}

bool has_overlap(const Schedule& schedule) {
  return std::any_of(schedule.ops.begin(), schedule.ops.end(), [](const std::vector<Op>& ops) {
    return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.overlap; });
  });
}

using Peaks = std::vector<std::int32_t>;

struct Known {
  const char* name;
  std::int32_t ranks, microbatches, chunks, group;
  double makespan, excess;
  Peaks peaks;
};

// Computed independently of this code, from the orders the papers give.
TEST(ScheduleTimes, AreTheKnownOnes) {
  const Known known[] = {
      {"gpipe", 4, 8, 1, 0, 33, 9, {8, 8, 8, 8}},
      {"1f1b", 4, 8, 1, 0, 33, 9, {4, 3, 2, 1}},
      {"interleaved", 4, 8, 2, 4, 28.5, 4.5, {11, 9, 7, 5}},
      {"interleaved", 4, 8, 2, 8, 28.5, 4.5, {15, 13, 11, 9}},
      {"interleaved", 4, 8, 4, 4, 26.25, 2.25, {19, 17, 15, 13}},
      {"interleaved", 2, 5, 2, 3, 16.5, 1.5, {6, 4}},
      {"interleaved", 3, 7, 2, 3, 27.5, 6.5, {8, 6, 4}},
      {"zb_h1", 4, 8, 1, 0, 27, 3, {4, 4, 4, 4}},
      {"zb_h1", 8, 24, 1, 0, 79, 7, Peaks(8, 8)},
      {"zb_h2", 4, 12, 1, 0, 39, 3, Peaks(4, 7)},
      {"zb_h2", 8, 24, 1, 0, 79, 7, Peaks(8, 15)},
      {"zb_v", 4, 12, 1, 0, 37.5, 1.5, Peaks(4, 8)},
      {"zb_v", 8, 24, 1, 0, 76.5, 4.5, Peaks(8, 16)},
  };
  for (const Known& k : known) {
    SCOPED_TRACE(std::string(k.name) + " " + std::to_string(k.ranks));
    const Timeline timeline = run(made(k.name, k.ranks, k.microbatches, k.chunks, k.group));
    EXPECT_EQ(static_cast<double>(timeline.makespan) / kUnit, k.makespan);
    EXPECT_EQ(static_cast<double>(timeline.excess) / kUnit, k.excess);
    EXPECT_EQ(timeline.peak_activations, k.peaks);
  }
}

TEST(ScheduleTimes, ZeroBubbleWaitsOnlyForTheFill) {
  EXPECT_EQ(run(made("zb_h1", 4, 8)).idle,
            (std::vector<std::int64_t>{3 * kUnit, 2 * kUnit, kUnit, 0}));
  for (const std::int32_t ranks : {2, 4, 8}) {
    EXPECT_EQ(run(made("zb_h2", ranks, 3 * ranks)).idle,
              std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 0));
  }
  EXPECT_EQ(run(made("zb_v", 4, 12)).idle,
            (std::vector<std::int64_t>{3 * kUnit / 2, kUnit / 2, 0, 0}));
}

TEST(ScheduleTimes, ZbH1PaysTheFillOfOneBackwardWeightLess) {
  for (const std::int32_t p : {2, 3, 4, 8}) {
    for (std::int32_t m = p; m <= 3 * p; ++m) {
      const Timeline timeline = run(made("zb_h1", p, m));
      EXPECT_EQ(timeline.excess, (p - 1) * kUnit) << p << " " << m;
      EXPECT_EQ(
          *std::max_element(timeline.peak_activations.begin(), timeline.peak_activations.end()), p);
    }
  }
}

// Blocks found by hand-tuned search at m = 4p; a generator may do better, never worse.
TEST(ScheduleTimes, VShapesAreNoWorseThanTheirKnownBlocks) {
  struct Bound {
    const char* name;
    std::int32_t ranks;
    double excess;
    std::int32_t peak;
  };
  for (const Bound& b :
       {Bound{"v_min", 2, 1.5, 4}, Bound{"v_min", 3, 4.5, 4}, Bound{"v_min", 4, 5.5, 4},
        Bound{"v_min", 6, 10.5, 6}, Bound{"v_min", 8, 13.5, 8}, Bound{"v_half", 2, 1.5, 4},
        Bound{"v_half", 3, 3.5, 4}, Bound{"v_half", 4, 5.5, 6}, Bound{"v_half", 6, 9.0, 9},
        Bound{"v_half", 8, 12.5, 11}}) {
    const Timeline timeline = run(made(b.name, b.ranks, 4 * b.ranks));
    EXPECT_LE(static_cast<double>(timeline.excess) / kUnit, b.excess) << b.name << b.ranks;
    EXPECT_LE(*std::max_element(timeline.peak_activations.begin(), timeline.peak_activations.end()),
              b.peak)
        << b.name << b.ranks;
  }
}

TEST(ScheduleOrders, AreTheKnownOnes) {
  EXPECT_EQ(row_of(made("1f1b", 4, 5), 0), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0B2 0B3 0B4");
  EXPECT_TRUE(row_of(made("1f1b", 4, 5), 3).starts_with("3F0 3B0 3F1 3B1"));
  const Schedule interleaved = made("interleaved", 2, 4, 2, 2);
  EXPECT_EQ(row_of(interleaved, 0),
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(row_of(interleaved, 1),
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
  const Schedule zb = made("zb_h1", 4, 5);
  EXPECT_EQ(row_of(zb, 0), "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4");
  EXPECT_EQ(row_of(zb, 1), "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1I3 1W2 1I4 1W3 1W4");
  EXPECT_EQ(row_of(zb, 2), "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2I4 2W2 2W3 2W4");
  EXPECT_EQ(row_of(zb, 3), "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3W2 3W3 3W4");
}

TEST(ScheduleOrders, InterleavedTurnsAreThoseOfMegatron) {
  const Schedule schedule = made("interleaved", 2, 5, 2, 3);
  std::vector<std::int32_t> microbatches, chunks;
  for (const Op& op : schedule.ops[0]) {
    if (op.kind != OpKind::kForward) continue;
    microbatches.push_back(op.microbatch);
    chunks.push_back(op.stage / 2);
  }
  EXPECT_EQ(microbatches, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(chunks, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
}

TEST(ScheduleOrders, InterleavedWarmsUpByRank) {
  const std::vector<std::size_t> expected{10, 8, 6, 4};
  const Schedule schedule = made("interleaved", 4, 8, 2, 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto& ops = schedule.ops[rank];
    const auto first = std::find_if(ops.begin(), ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::kBackward; });
    EXPECT_EQ(static_cast<std::size_t>(first - ops.begin()), expected[rank] + 1);
  }
}

// DualPipe holds p + 1 activations (two streams on each rank, four a rank pair's stage).
TEST(ScheduleTimes, DualPipeHoldsOneMoreActivationThanRanks) {
  for (const std::int32_t p : {2, 4, 8}) {
    const Timeline timeline = run(made("dualpipe", p, 4 * p));
    for (const std::int32_t peak : timeline.peak_activations) EXPECT_LE(peak, p + 1);
  }
}

TEST(ScheduleProperties, EveryGeneratorIsCompleteAndEndsWhateverTheSize) {
  for (const std::string& name : schedule_names()) {
    for (const std::int32_t ranks : {1, 2, 3, 4, 5, 8}) {
      for (const std::int32_t microbatches : {1, 2, 3, 5, 8, 16, 17, 24}) {
        for (const std::int32_t chunks : {1, 2, 3}) {
          const Result<Schedule> schedule = make_schedule({name, ranks, chunks, microbatches, 0});
          if (!schedule.ok()) continue;
          for (const bool gather : {false, true}) {
            const Schedule whole = insert_comm(*schedule, {.gather = gather});
            EXPECT_EQ(validate(whole), std::vector<std::string>{})
                << name << " p " << ranks << " m " << microbatches << " v " << chunks;
            // Receives only add waiting that the compute ops have anyway, except that both halves
            // of an overlapping pair wait for the inputs of both.
            if (has_overlap(*schedule)) {
              EXPECT_GE(run(whole).makespan, run(*schedule).makespan);
            } else {
              EXPECT_EQ(run(whole).makespan, run(*schedule).makespan)
                  << name << ranks << microbatches;
            }
          }
        }
      }
    }
  }
}

TEST(ScheduleProperties, SendsThatWaitAreFineWhereAllFlowsOneWay) {
  const Schedule gpipe = insert_comm(made("gpipe", 4, 6));
  EXPECT_EQ(validate(gpipe, true), std::vector<std::string>{});
  // In 1F1B a rank sends an activation on while the next one sends a gradient back: both wait.
  const std::vector<std::string> faults = validate(insert_comm(made("1f1b", 4, 6)), true);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_TRUE(faults[0].starts_with("deadlock: rank 0")) << faults[0];
}

TEST(ScheduleProperties, ShardedStagesAreGatheredOncePerRun) {
  const auto gathers = [](const Schedule& s) {
    std::vector<std::int64_t> counts;
    for (const auto& ops : s.ops) {
      counts.push_back(std::count_if(ops.begin(), ops.end(),
                                     [](const Op& op) { return op.kind == OpKind::kGather; }));
    }
    return counts;
  };
  EXPECT_EQ(gathers(insert_comm(made("1f1b", 4, 8), {.gather = true})),
            (std::vector<std::int64_t>{1, 1, 1, 1}));
  const Schedule interleaved = insert_comm(made("interleaved", 2, 8, 2, 4), {.gather = true});
  for (const std::int64_t count : gathers(interleaved)) EXPECT_LE(count, 2 * 2 * 8 / 4);
}

TEST(ScheduleRequests, ThatCannotBeAreRefused) {
  const auto message = [](const ScheduleRequest& request) {
    const Result<Schedule> made = make_schedule(request);
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_EQ(message({.name = "2f2b"}), "no schedule is called \"2f2b\"");
  EXPECT_EQ(message({"interleaved", 4, 2, 8, 3}),
            "interleaved: groups of 3 microbatches, which must be 4 (ranks) to 8 (microbatches)");
  EXPECT_EQ(message({"interleaved", 4, 2, 3, 0}),
            "interleaved: groups of 4 microbatches, which must be 4 (ranks) to 3 (microbatches)");
  EXPECT_EQ(message({"dualpipe", 3, 2, 12, 0}), "dualpipe: 3 ranks, which must be even");
  EXPECT_EQ(message({"dualpipe", 2, 2, 5, 0}), "dualpipe: 5 microbatches, which must be even");
  EXPECT_EQ(message({"dualpipev", 4, 2, 7, 0}),
            "dualpipev: 7 microbatches, which must be at least twice the 4 ranks");
  EXPECT_EQ(message({"1f1b", 4, 2, 8, 0}), "1f1b: 2 stages a rank; it has 1");
  EXPECT_EQ(message({"1f1b", 0, 1, 8, 0}), "ranks, chunks and microbatches must be at least 1");
  EXPECT_TRUE(has_costly_last_group({"interleaved", 3, 2, 7, 3}));
  EXPECT_FALSE(has_costly_last_group({"interleaved", 2, 2, 5, 3}));
}

TEST(ScheduleProperties, OneRankIsTheAccumulationLoop) {
  EXPECT_EQ(row_of(made("1f1b", 1, 3), 0), "0F0 0B0 0F1 0B1 0F2 0B2");
}

}  // namespace
}  // namespace sx
