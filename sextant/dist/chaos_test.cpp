// Things that go wrong, 20 times each: no hang, one cause, and soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sextant/dist/dist_error.h"
#include "sextant/dist/faulty.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::uint64_t kRounds = 20;
constexpr std::int64_t kRanks = 4;
constexpr std::uint64_t kCalls = 12;

/// A step as engines make it: gathers ahead, work, reductions behind, a sum of all at the end.
void play_step(Communicator& world) {
  Communicator gather = world.make_group({0, 1, 2, 3}, Axis::kDpShard, Purpose::kGather);
  Communicator reduce = world.make_group({0, 1, 2, 3}, Axis::kDpShard, Purpose::kReduce);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string unit = "layers." + std::to_string(layer);
    at::Tensor whole = at::full({40'000}, 0.0, at::kFloat);
    at::Tensor part = at::full({10'000}, 1.0, at::kFloat);
    Handle gathered = gather.start_all_gather(whole, part, {}, {.unit = unit});
    Handle reduced = reduce.start_reduce_scatter(at::full({10'000}, 0.0, at::kFloat),
                                                 at::full({40'000}, 1.0, at::kFloat),
                                                 ReduceOp::kSum, {}, {.unit = unit});
    gathered.wait();
    reduced.wait();
    at::Tensor norm = at::full({1}, 1.0, at::kDouble);
    world.start_all_reduce(norm, ReduceOp::kSum, {.unit = "norm"}).wait();
  }
}

struct Outcome {
  double seconds = 0.0;
  std::string message;          ///< of what run_ranks threw
  std::set<std::string> peers;  ///< messages that ranks got as DistError
};

Outcome run_with(const FaultPlan& plan, Seconds timeout,
                 const std::function<void(Communicator&)>& body = play_step) {
  Outcome outcome;
  std::mutex mutex;
  const auto shared = std::make_shared<const FaultPlan>(plan);
  const auto start = Clock::now();
  try {
    run_ranks(kRanks,
              [&](Communicator& world) {
                with_faults(world, shared);
                try {
                  body(world);
                } catch (const DistError& e) {
                  const std::lock_guard lock(mutex);
                  outcome.peers.insert(e.what());
                  throw;
                }
              },
              {.timeout = timeout});
  } catch (const std::exception& e) {
    outcome.message = e.what();
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return outcome;
}

TEST(Chaos, CrashOfARankEndsAllWithItsMessage) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const FaultPlan plan = FaultPlan::random(seed, FaultKind::kCrash, kRanks, kCalls);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.to_string());
    const Outcome outcome = run_with(plan, Seconds{20.0});
    EXPECT_THAT(outcome.message, HasSubstr("injected crash on rank " +
                                           std::to_string(plan.faults[0].rank) + " at call"));
    ASSERT_LE(outcome.peers.size(), 1u);
    for (const std::string& peer : outcome.peers) {
      EXPECT_EQ(peer, "rank " + std::to_string(plan.faults[0].rank) + ": " + outcome.message);
    }
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(Chaos, SlowRankIsWaitedFor) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const FaultPlan plan = FaultPlan::random(seed, FaultKind::kSlow, kRanks, kCalls, Seconds{0.02});
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.to_string());
    const Outcome outcome = run_with(plan, Seconds{20.0});
    EXPECT_EQ(outcome.message, "");
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

// All rounds at once: they sleep most of the time, and a busy machine needs room before a rank that
// is merely late counts as missing.
TEST(Chaos, RankThatIsTooSlowIsNamed) {
  std::vector<std::thread> rounds;
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    rounds.emplace_back([seed] {
      const FaultPlan plan =
          FaultPlan::random(seed, FaultKind::kSlow, kRanks, kCalls, Seconds{1.5});
      const Outcome outcome = run_with(plan, Seconds{0.5});
      EXPECT_THAT(outcome.message,
                  HasSubstr("s for rank " + std::to_string(plan.faults[0].rank) + " to join"))
          << "seed " << seed << ": " << plan.to_string();
      EXPECT_EQ(outcome.peers.size(), 1u) << "seed " << seed;
      EXPECT_LT(outcome.seconds, 5.0) << "seed " << seed;
    });
  }
  for (std::thread& round : rounds) round.join();
}

TEST(Chaos, CallThatARankLeavesOutIsFound) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const FaultPlan plan = FaultPlan::random(seed, FaultKind::kDrop, kRanks, kCalls);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.to_string());
    const Outcome outcome = run_with(plan, Seconds{20.0});
    EXPECT_NE(outcome.message, "");
    EXPECT_EQ(outcome.peers.size(), 1u) << ::testing::PrintToString(outcome.peers);
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(Chaos, FlippedBitReachesEveryRankAlike) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const FaultPlan plan = FaultPlan::random(seed, FaultKind::kFlipBit, kRanks, 1);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.to_string());
    std::vector<at::Tensor> results(kRanks);
    run_with(plan, Seconds{20.0}, [&](Communicator& world) {
      at::Tensor t = at::full({30'000}, 3, at::kInt);
      world.start_all_reduce(t, ReduceOp::kSum).wait();
      results[static_cast<std::size_t>(world.coord())] = t;
    });
    const int* values = results[0].const_data_ptr<int>();
    EXPECT_EQ(std::count(values, values + 30'000, 12), 29'999);
    for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, results[0]));
  }
}

TEST(Chaos, ExceptionWithCallsInFlightEndsAll) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto start = Clock::now();
    try {
      run_ranks(kRanks,
                [&](Communicator& world) {
                  at::Tensor a = at::full({200'000}, 1.0, at::kFloat);
                  at::Tensor b = at::full({200'000}, 1.0, at::kFloat);
                  Handle first = world.start_all_reduce(a, ReduceOp::kSum);
                  Handle second = world.start_all_reduce(b, ReduceOp::kSum);
                  if (world.coord() == static_cast<std::int64_t>(seed) % kRanks) {
                    throw std::runtime_error("hook failed");
                  }
                  second.wait();
                  first.wait();
                  world.barrier();
                },
                {.timeout = Seconds{20.0}});
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "hook failed");
    }
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 5.0);
  }
}

TEST(Chaos, UnitsSwappedOnOneRankAreNamedEveryTime) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto odd = static_cast<std::int64_t>(seed) % kRanks;
    std::atomic<int> told = 0;
    const auto start = Clock::now();
    try {
      run_ranks(kRanks,
                [&](Communicator& world) {
                  at::Tensor x = at::full({20'000}, 1.0, at::kFloat);
                  at::Tensor y = at::full({20'000}, 1.0, at::kFloat);
                  const bool swapped = world.coord() == odd;
                  try {
                    Handle first = world.start_all_reduce(
                        x, ReduceOp::kSum, {.unit = swapped ? "layers.1" : "layers.0"});
                    Handle second = world.start_all_reduce(
                        y, ReduceOp::kSum, {.unit = swapped ? "layers.0" : "layers.1"});
                    first.wait();
                    second.wait();
                  } catch (const DistError& e) {
                    EXPECT_EQ(e.fault(), DistFault::kMismatch);
                    EXPECT_THAT(e.what(), HasSubstr("layers.0"));
                    EXPECT_THAT(e.what(), HasSubstr("layers.1"));
                    EXPECT_THAT(e.what(), HasSubstr("rank " + std::to_string(odd) + " calls"));
                    ++told;
                    throw;
                  }
                },
                {.timeout = Seconds{20.0}});
      ADD_FAILURE() << "no exception";
    } catch (const DistError&) {
    }
    EXPECT_EQ(told, kRanks);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 5.0);
  }
}

}  // namespace
}  // namespace sx
