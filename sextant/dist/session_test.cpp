// What every transport has: counts of bytes, schedule hash, flight record, time-outs; and the fake
// one.
#include "sextant/dist/comm_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "sextant/base/signals.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/fake.h"
#include "sextant/dist/testing.h"
#include "sextant/trace/flight_report.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;
using testing::seconds_since;

at::Tensor floats(std::int64_t n) { return at::zeros({n}, at::kFloat); }

void call_each_once(Communicator& world) {
  const std::int64_t w = world.degree();
  world.start_all_reduce(floats(8 * w), ReduceOp::kSum).wait();
  world.start_reduce_scatter(floats(8), floats(8 * w), ReduceOp::kSum).wait();
  world.start_all_gather(floats(8 * w), floats(8)).wait();
  world.start_all_to_all(floats(8 * w), floats(8 * w)).wait();
  world.start_broadcast(floats(8), 0).wait();
  Handle sent = world.start_send(floats(8), (world.coord() + 1) % w);
  world.start_recv(floats(8), (world.coord() + w - 1) % w).wait();
  sent.wait();
  world.barrier();
}

void expect_formulas(Communicator& world) {
  const std::int64_t w = world.degree();
  const std::int64_t n = 8 * w * 4;  // bytes of the full buffer
  CommSession& session = world.session();
  const auto expect = [&](Collective op, std::int64_t bytes) {
    EXPECT_EQ(session.traffic_of(op), (Traffic{1, bytes})) << to_string(op) << ", " << w;
  };
  expect(Collective::kAllReduce, 2 * n * (w - 1) / w);
  expect(Collective::kReduceScatter, n * (w - 1) / w);
  expect(Collective::kAllGather, n * (w - 1) / w);
  expect(Collective::kAllToAll, n * (w - 1) / w);
  expect(Collective::kBroadcast, world.coord() == 0 ? 0 : 32);
  expect(Collective::kSend, 32);
  expect(Collective::kRecv, 0);
  expect(Collective::kBarrier, 0);
}

TEST(CommTraffic, IsWhatTheFormulasSay) {
  for (const std::int64_t w : {2, 3, 8}) {
    rank_test(w, [](Communicator& world) {
      call_each_once(world);
      expect_formulas(world);
      EXPECT_EQ(world.session().max_in_flight(), 2);
      world.session().reset_traffic();
      EXPECT_TRUE(world.session().traffic().empty());
    });
  }
}

TEST(CommTraffic, UnevenPartsAddUpOverTheRanks) {
  std::atomic<std::int64_t> reduced = 0, gathered = 0, both = 0;
  rank_test(3, [&](Communicator& world) {
    const std::vector<std::int64_t> counts{5, 0, 2};
    const std::int64_t own = counts[static_cast<std::size_t>(world.coord())];
    world.start_reduce_scatter(floats(own), floats(7), ReduceOp::kSum, counts).wait();
    world.start_all_gather(floats(7), floats(own), counts).wait();
    world.start_all_reduce(floats(7), ReduceOp::kSum).wait();
    reduced += world.session().traffic_of(Collective::kReduceScatter).bytes;
    gathered += world.session().traffic_of(Collective::kAllGather).bytes;
    both += world.session().traffic_of(Collective::kAllReduce).bytes;
  });
  EXPECT_EQ(reduced, 7 * 4 * 2);
  EXPECT_EQ(gathered, 7 * 4 * 2);
  EXPECT_EQ(both, 2 * 7 * 4 * 2);
}

TEST(CommTraffic, IsKeptByAxisAndARankAloneCountsNothing) {
  rank_test(4, [](Communicator& world) {
    const std::int64_t row = world.coord() / 2;
    Communicator shard = world.make_group({2 * row, 2 * row + 1}, Axis::kDpShard, Purpose::kReduce);
    Communicator alone = world.make_group({world.coord()}, Axis::kTp, Purpose::kReduce);
    shard.start_all_reduce(floats(6), ReduceOp::kSum).wait();
    alone.start_all_reduce(floats(6), ReduceOp::kSum).wait();
    const auto rows = world.session().traffic();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].axis, AxisSet(Axis::kDpShard));
    EXPECT_EQ(rows[0].purpose, Purpose::kReduce);
    EXPECT_EQ(rows[0].traffic, (Traffic{1, 24}));
    EXPECT_EQ(world.session().traffic_of(Collective::kAllReduce, Axis::kTp).calls, 0);
  });
}

TEST(FakeWorld, PlaysAnyRankOfALargeWorld) {
  const auto start = Clock::now();
  for (const std::int64_t rank : {0, 511, 1023}) {
    Communicator world = fake_world(1024, rank);
    EXPECT_EQ(world.degree(), 1024);
    EXPECT_EQ(world.coord(), rank);
    call_each_once(world);
    expect_formulas(world);
    const std::int64_t row = rank / 8 * 8;
    std::vector<std::int64_t> ranks(8);
    std::iota(ranks.begin(), ranks.end(), row);
    Communicator tp = world.make_group(ranks, Axis::kTp, Purpose::kReduce);
    EXPECT_EQ(tp.coord(), rank % 8);
    at::Tensor out = floats(16);
    tp.start_all_gather(out, at::full({2}, 3.0, at::kFloat)).wait();
    EXPECT_EQ(out.min().item<float>(), 3.0f);
    at::Tensor in = at::full({16}, 1.0, at::kFloat);
    in[2 * tp.coord()].fill_(9.0);
    at::Tensor slice = floats(2);
    tp.start_reduce_scatter(slice, in, ReduceOp::kSum).wait();
    EXPECT_EQ(slice[0].item<float>(), 9.0f);
    EXPECT_EQ(slice[1].item<float>(), 1.0f);
    world.abort("enough");
    EXPECT_THROW(tp.barrier(), DistError);
  }
  EXPECT_LT(seconds_since(start), 1.0);
}

TEST(FlightRecorder, KeepsTheLastCallsAndTheirStates) {
  Communicator world = fake_world(4, 1, {.comm = {.flight_records = 16}});
  for (int i = 0; i < 40; ++i) {
    world.session().begin_step(i);
    world.start_all_reduce(floats(i + 1), ReduceOp::kMax, {.unit = "layers." + std::to_string(i)})
        .wait();
  }
  const FlightDump dump = world.session().recorder().snapshot("asked");
  ASSERT_EQ(dump.entries.size(), 16u);
  ASSERT_EQ(dump.groups.size(), 1u);
  EXPECT_EQ(dump.groups[0].calls, 40u);
  EXPECT_EQ(dump.groups[0].transport, "fake");
  const FlightEntry& last = dump.entries.back();
  EXPECT_EQ(last.number, 39u);
  EXPECT_EQ(last.sequence, 39u);
  EXPECT_EQ(last.op, "all_reduce max");
  EXPECT_EQ(last.dtype, "Float");
  EXPECT_EQ(last.numel, 40);
  EXPECT_EQ(last.unit, "layers.39");
  EXPECT_EQ(last.step, 39);
  EXPECT_EQ(last.state, FlightState::kDone);
  EXPECT_GE(last.done_ns, last.started_ns);
  EXPECT_EQ(dump.entries.front().number, 24u);
}

TEST(FlightRecorder, CanBeReadWhileCallsAreMade) {
  Communicator world = fake_world(2, 0, {.comm = {.flight_records = 64}});
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      const FlightDump dump = world.session().recorder().snapshot("");
      for (const FlightEntry& e : dump.entries) {
        ASSERT_EQ(e.numel, static_cast<std::int64_t>(e.number % 7 + 1));
        ASSERT_EQ(e.unit, "u" + std::to_string(e.number % 5));
      }
    }
  });
  const at::Tensor t = floats(7);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    world
        .start_all_reduce(t.narrow(0, 0, static_cast<std::int64_t>(i % 7 + 1)), ReduceOp::kSum,
                          {.unit = "u" + std::to_string(i % 5)})
        .wait();
  }
  stop = true;
  reader.join();
}

TEST(FlightRecorder, IsWrittenByEveryRankWhenOneFails) {
  const TempDir folder;
  EXPECT_THROW(run_ranks(3,
                         [](Communicator& world) {
                           world.start_all_reduce(floats(4), ReduceOp::kSum, {.unit = "a"}).wait();
                           if (world.coord() == 1) throw std::runtime_error("lost it");
                           world.start_all_reduce(floats(4), ReduceOp::kSum, {.unit = "b"}).wait();
                         },
                         {.flight_folder = folder.path()}),
               std::runtime_error);
  const auto dumps = read_flight_dumps(folder.path());
  ASSERT_TRUE(dumps.ok()) << dumps.error().to_string();
  ASSERT_EQ(dumps->size(), 3u);
  EXPECT_EQ((*dumps)[1].reason, "lost it");
  EXPECT_EQ((*dumps)[0].reason, "rank 1: lost it");
  EXPECT_EQ((*dumps)[0].entries.back().state, FlightState::kFailed);
  const std::string text = to_text(compare_flights(*dumps));
  EXPECT_THAT(text, HasSubstr("first divergence: world (control) of ranks 0 1 2, call 1"));
  EXPECT_THAT(text, HasSubstr("rank 1: no call"));
}

TEST(FlightRecorder, IsWrittenOnASignalWhileAllWait) {
  const TempDir folder;
  signals::clear();
  std::atomic<bool> written = false;
  run_ranks(2,
            [&](Communicator& world) {
              world.barrier();
              if (world.coord() == 0) {
                signals::request_stop();
                const auto start = Clock::now();
                while (!fs::exists(folder / "rank-00001.json") && seconds_since(start) < 5.0) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(5));
                }
                written = fs::exists(folder / "rank-00001.json");
              }
              world.barrier();
            },
            {.flight_folder = folder.path(), .watch_signals = true});
  signals::clear();
  EXPECT_TRUE(written);
}

TEST(CommTimeout, IsLongerInTheFirstStep) {
  run_ranks(1,
            [](Communicator& world) {
              CommSession& session = world.session();
              EXPECT_EQ(session.timeout(), Seconds{30.0});
              session.begin_step(1);
              EXPECT_EQ(session.timeout(), Seconds{30.0});
              session.end_step();
              EXPECT_EQ(session.timeout(), Seconds{2.0});
            },
            {.timeout = Seconds{2.0}, .first_timeout = Seconds{30.0}});
}

TEST(CommTimeout, OfOneCallGoesBeforeTheCommunicators) {
  const auto start = Clock::now();
  EXPECT_THROW(run_ranks(2,
                         [&](Communicator& world) {
                           if (world.coord() == 1) {
                             std::this_thread::sleep_for(std::chrono::milliseconds(300));
                           }
                           world.barrier({.timeout = Seconds{0.05}});
                         },
                         {.timeout = Seconds{20.0}}),
               DistError);
  EXPECT_LT(seconds_since(start), 2.0);
}

TEST(ScheduleCheck, EqualSchedulesPass) {
  rank_test(4, [](Communicator& world) {
    const std::int64_t row = world.coord() / 2;
    Communicator shard = world.make_group({2 * row, 2 * row + 1}, Axis::kDpShard, Purpose::kReduce);
    for (int step = 0; step < 3; ++step) {
      // The two rows differ: each group has a schedule of its own.
      for (std::int64_t i = 0; i <= row; ++i) {
        shard.start_all_reduce(floats(4 + row), ReduceOp::kSum).wait();
      }
      world.session().check_schedules(world, std::vector<ScheduleCount>{{"microbatches", 2}});
    }
  });
}

/// The message every rank must get.
std::string difference_between(const std::function<void(Communicator&, CommSession&)>& body) {
  std::vector<std::string> messages(4);
  EXPECT_THROW(run_ranks(4,
                         [&](Communicator& world) {
                           try {
                             body(world, world.session());
                           } catch (const DistError& e) {
                             messages[static_cast<std::size_t>(world.coord())] = e.what();
                             throw;
                           }
                         },
                         {.timeout = Seconds{20.0}}),
               DistError);
  return messages[0];
}

TEST(ScheduleCheck, OneMicrobatchMoreIsReportedWithTheCountsOfTheRanks) {
  const std::string text = difference_between([](Communicator& world, CommSession& session) {
    session.begin_step(12);
    const std::int64_t own = world.coord() == 2 ? 5 : 4;
    session.check_schedules(world, std::vector<ScheduleCount>{{"microbatches", own}});
  });
  EXPECT_EQ(text,
            "ranks did not make the same calls up to the end of step 12: microbatches: 4 on rank "
            "0, 1, 3; 5 on rank 2");
}

// With a reduction in every microbatch rank 2 sits in its fifth while the others have come to the
// end of the step: nobody can go on, which is found at once.
TEST(ScheduleCheck, OneReductionMoreIsFoundAtOnce) {
  const auto start = Clock::now();
  const std::string text = difference_between([](Communicator& world, CommSession& session) {
    Communicator reduce = world.make_group({0, 1, 2, 3}, Axis::kDpShard, Purpose::kReduce);
    const int microbatches = world.coord() == 2 ? 5 : 4;
    for (int i = 0; i < microbatches; ++i) {
      reduce.start_all_reduce(floats(5000), ReduceOp::kSum, {.unit = "layers.0"}).wait();
    }
    session.check_schedules(world);
  });
  EXPECT_THAT(text, HasSubstr("no rank can go on"));
  EXPECT_THAT(text, HasSubstr("rank 2 waits in all_reduce sum Float x 5000, unit \"layers.0\", "
                              "call 4 on dp_shard (reduce)"));
  EXPECT_THAT(text, HasSubstr("unit \"schedule check\", call 0 on world (control)"));
  EXPECT_LT(seconds_since(start), 2.0);
}

}  // namespace
}  // namespace sx
