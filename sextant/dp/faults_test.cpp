// Things that go wrong while the engine trains, each from 20 seeds; and seeded schedules of all
// kinds, after which the run goes on from its last committed step: the method of torchft's tests
// (threads of one process, a fault at a drawn rank and call, final states compared).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "sextant/base/diagnostic.h"
#include "sextant/base/rng.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/faulty.h"
#include "sextant/dist/threads.h"
#include "sextant/dist/verified.h"
#include "sextant/dp/engine.h"
#include "sextant/dp/testing.h"

#ifndef SX_CHAOS_SCHEDULES
#define SX_CHAOS_SCHEDULES 20
#endif

namespace sx {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Stack;

constexpr std::uint64_t kRounds = 20;
constexpr std::int64_t kRanks = 4;
constexpr std::int64_t kSteps = 4;

/// A mesh and a way to train on it, by seed.
struct Way {
  std::int64_t replicas = 1;
  Policy policy;
  std::int64_t shards() const { return kRanks / replicas; }
};

Way way_of(std::uint64_t seed) {
  constexpr Preset kPresets[] = {Preset::kFsdp2, Preset::kDdp, Preset::kZero1, Preset::kFsdp1,
                                 Preset::kZero2};
  constexpr std::int64_t kReplicas[] = {1, 2, 4};
  return {.replicas = kReplicas[seed % 3],
          .policy = {.preset = kPresets[seed % 5], .bucket_elements = 40}};
}

/// Weights of all ranks after each committed step, and where a run goes on.
class Commits {
 public:
  using Weights = std::map<std::string, at::Tensor>;
  void put(std::int64_t step, std::int64_t rank, Weights weights) {
    const std::lock_guard lock(mutex_);
    by_step_[step][rank] = std::move(weights);
  }
  /// The newest step that every rank has committed; 0: none.
  std::int64_t newest() const {
    const std::lock_guard lock(mutex_);
    for (auto at = by_step_.rbegin(); at != by_step_.rend(); ++at) {
      if (std::ssize(at->second) == kRanks) return at->first;
    }
    return 0;
  }
  Weights of(std::int64_t step, std::int64_t rank) const {
    const std::lock_guard lock(mutex_);
    return by_step_.at(step).at(rank);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::map<std::int64_t, Weights>> by_step_;
};

/// What a rank does otherwise than the rest.
struct Odd {
  std::int64_t rank = -1;
  std::vector<std::size_t> order{};
  std::int64_t more_microbatches = 0;
  std::optional<HookPoint> hook{};
};

/// Trains from the newest commit to the end; every step's batches follow from its number.
void train(Communicator& world, const Way& way, Commits& commits, const Odd& odd = {},
           std::atomic<std::uint64_t>* calls = nullptr) {
  const bool is_odd = world.coord() == odd.rank;
  DataComms comms(world, way.replicas, way.shards());
  Stack model(3);
  if (is_odd) model.order = odd.order;
  Engine engine(model, comms, way.policy, at::kDouble);
  engine.init_parameters(1);
  std::int64_t step = commits.newest();
  world.barrier();  // all have looked before anybody commits
  if (step > 0) {
    const Commits::Weights weights = commits.of(step, world.coord());
    for (const OwnedPart& part : engine.owned()) part.master.copy_(weights.at(part.parameter->fqn));
    engine.publish();
  }
  if (is_odd && odd.hook) {
    model.blocks[1]->add_hook(*odd.hook, "test", [](Module& unit, const at::Tensor&) {
      throw std::runtime_error("bad image in " + unit.fqn());
    });
  }
  while (step < kSteps) {
    ++step;
    world.session().begin_step(step);
    const std::int64_t microbatches = 2 + (is_odd ? odd.more_microbatches : 0);
    engine.begin_step();
    for (std::int64_t m = 0; m < microbatches; ++m) {
      engine.begin_microbatch(m + 1 == microbatches);
      const std::int64_t row = (step * 2 + m) * kRanks + world.coord();
      engine.backward(model.loss(row, at::kDouble), 0.25);
    }
    engine.finish_grads();
    const double norm = engine.step_sums().norm.norm;
    engine.clip(norm, 1.0);
    {
      const at::NoGradGuard no_grad;
      for (const OwnedPart& part : engine.owned())
        part.master.narrow(0, 0, part.end - part.begin).sub_(part.grad, 0.05);
    }
    engine.commit();
    Commits::Weights weights;
    for (const OwnedPart& part : engine.owned()) weights[part.parameter->fqn] = part.master.clone();
    commits.put(step, world.coord(), std::move(weights));
  }
  world.barrier();
  if (calls != nullptr && world.coord() == 0) *calls = world.session().recorder().num_calls();
}

struct Outcome {
  std::string message;  ///< of what ended the run; empty: nothing did
  double seconds = 0;
};

Outcome attempt(const std::function<void(Communicator&)>& body, double timeout = 20.0) {
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(kRanks, body, {.timeout = Seconds{timeout}});
  } catch (const std::exception& e) {
    outcome.message = e.what();
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

Outcome attempt_with(const FaultPlan& plan, const Way& way, Commits& commits, double timeout = 20.0,
                     bool verify = false) {
  const auto shared = std::make_shared<const FaultPlan>(plan);
  return attempt(
      [&](Communicator& world) {
        with_faults(world, shared);
        if (verify) with_verification(world);
        train(world, way, commits);
      },
      timeout);
}

/// A run without faults: its end, and how many calls a rank makes.
struct Clean {
  std::vector<Commits::Weights> weights;
  std::uint64_t calls = 0;
};

Clean clean_run(const Way& way) {
  Commits commits;
  std::atomic<std::uint64_t> calls = 0;
  const Outcome outcome =
      attempt([&](Communicator& world) { train(world, way, commits, {}, &calls); });
  EXPECT_EQ(outcome.message, "");
  Clean clean{.weights = {}, .calls = calls};
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    clean.weights.push_back(commits.of(kSteps, rank));
  return clean;
}

void expect_same_end(const Clean& clean, const Commits& commits) {
  ASSERT_EQ(commits.newest(), kSteps);
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const Commits::Weights weights = commits.of(kSteps, rank);
    for (const auto& [name, expected] : clean.weights[static_cast<std::size_t>(rank)])
      EXPECT_TRUE(at::equal(weights.at(name), expected)) << name << " on rank " << rank;
  }
}

std::string rank_name(std::int64_t rank) { return "rank " + std::to_string(rank); }

TEST(EngineFaults, CrashEndsAllWithItsMessage) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const Way way = way_of(seed);
    const FaultPlan plan = FaultPlan::random(seed, FaultKind::kCrash, kRanks, clean_run(way).calls);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, plan.to_string()));
    Commits commits;
    const Outcome outcome = attempt_with(plan, way, commits);
    EXPECT_THAT(outcome.message, HasSubstr(fmt::format("injected crash on rank {} at call {}",
                                                       plan.faults[0].rank, plan.faults[0].call)));
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(EngineFaults, SlowRankIsWaitedForAndChangesNothing) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const Way way = way_of(seed);
    const Clean clean = clean_run(way);
    const FaultPlan plan =
        FaultPlan::random(seed, FaultKind::kSlow, kRanks, clean.calls, Seconds{0.03});
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, plan.to_string()));
    Commits commits;
    const Outcome outcome = attempt_with(plan, way, commits);
    EXPECT_EQ(outcome.message, "");
    EXPECT_LT(outcome.seconds, 5.0);
    expect_same_end(clean, commits);
  }
}

TEST(EngineFaults, ExceptionInAHookEndsAllWithItsMessage) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const Odd odd{.rank = static_cast<std::int64_t>(seed) % kRanks,
                  .hook = kAllHookPoints[seed / kRanks % std::size(kAllHookPoints)]};
    SCOPED_TRACE(fmt::format("seed {}: {} on rank {}", seed, to_string(*odd.hook), odd.rank));
    Commits commits;
    const Outcome outcome =
        attempt([&](Communicator& world) { train(world, way_of(seed), commits, odd); });
    EXPECT_THAT(outcome.message, HasSubstr("bad image in blocks.1"));
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(EngineFaults, UnitsSwappedOnOneRankAreNamed) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    // Sharded, so that the order of units is one of collectives.
    const Way way{.replicas = seed % 2 == 0 ? 1 : 2,
                  .policy = {.preset = seed % 4 < 2 ? Preset::kFsdp1 : Preset::kFsdp2}};
    const Odd odd{.rank = static_cast<std::int64_t>(seed) % kRanks, .order = {1, 0, 2}};
    SCOPED_TRACE(fmt::format("seed {}: rank {}", seed, odd.rank));
    Commits commits;
    const Outcome outcome = attempt([&](Communicator& world) { train(world, way, commits, odd); });
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("blocks.0"), HasSubstr("blocks.1"),
                                       HasSubstr(rank_name(odd.rank) + " calls")));
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(EngineFaults, AnotherMeshOnOneRankIsRefused) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const RandomStream random(seed, "test.mesh");
    const auto odd = static_cast<std::int64_t>(random.u64(0) % kRanks);
    constexpr std::int64_t kReplicas[] = {1, 2, 4};
    const std::uint64_t own = random.u64(1) % 3, other = (own + 1 + random.u64(2) % 2) % 3;
    SCOPED_TRACE(fmt::format("seed {}: {} replicas on rank {}, {} elsewhere", seed,
                             kReplicas[other], odd, kReplicas[own]));
    Commits commits;
    const Outcome outcome = attempt([&](Communicator& world) {
      Way way = way_of(seed);
      way.replicas = kReplicas[world.coord() == odd ? other : own];
      train(world, way, commits);
    });
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("SX2-019"), HasSubstr("mesh"),
                                       HasSubstr(rank_name(odd == 0 ? 1 : odd) + ":")));
    EXPECT_LT(outcome.seconds, 5.0);
  }
}

TEST(EngineFaults, OneMicrobatchMoreIsFound) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    const Way way = way_of(seed);
    const Odd odd{.rank = static_cast<std::int64_t>(seed / 5) % kRanks, .more_microbatches = 1};
    SCOPED_TRACE(
        fmt::format("seed {}: rank {}, {}", seed, odd.rank, preset_row(way.policy.preset).name));
    Commits commits;
    const Outcome outcome = attempt([&](Communicator& world) { train(world, way, commits, odd); });
    EXPECT_THAT(outcome.message, HasSubstr(rank_name(odd.rank)));
    EXPECT_LT(outcome.seconds, 5.0);
    EXPECT_EQ(commits.newest(), 0);
  }
}

// ---- schedules of all kinds ----

struct Schedule {
  std::uint64_t seed = 0;
  Way way;
  FaultPlan plan;
  bool hang = false, verify = false;
  std::string to_string() const {
    return fmt::format("schedule {}: {}{}, {} on {}x{}", seed, plan.to_string(),
                       hang ? " (hangs)" : "", preset_row(way.policy.preset).name, way.replicas,
                       way.shards());
  }
};

Schedule schedule_of(std::uint64_t seed, const std::vector<Clean>& clean) {
  Schedule schedule{.seed = seed, .way = way_of(seed / 5), .plan = {}};
  constexpr FaultKind kKinds[] = {FaultKind::kCrash, FaultKind::kSlow, FaultKind::kSlow,
                                  FaultKind::kFlipBit, FaultKind::kDrop};
  const std::uint64_t kind = seed % 5;
  schedule.hang = kind == 1;
  schedule.verify = kKinds[kind] == FaultKind::kFlipBit;
  // With verification each call is two: the last but one is where input of every kind is sent.
  const std::uint64_t calls = clean[seed / 5 % 15].calls * (schedule.verify ? 2 : 1);
  schedule.plan =
      FaultPlan::random(seed, kKinds[kind], kRanks, calls, Seconds{schedule.hang ? 3.0 : 0.02});
  return schedule;
}

/// With the fault, then without it from the last committed step. True when the fault ended the run.
bool play(const Schedule& schedule, const Clean& clean) {
  const Fault& fault = schedule.plan.faults[0];
  Commits commits;
  const Outcome outcome = attempt_with(schedule.plan, schedule.way, commits,
                                       schedule.hang ? 1.0 : 20.0, schedule.verify);
  EXPECT_LT(outcome.seconds, 10.0) << schedule.to_string();
  switch (fault.kind) {
    case FaultKind::kCrash:
      EXPECT_THAT(outcome.message, HasSubstr("injected crash on " + rank_name(fault.rank)))
          << schedule.to_string();
      break;
    case FaultKind::kSlow:
      if (schedule.hang) {
        // Who waits for a rank that waits itself tells of the one that does not.
        EXPECT_THAT(outcome.message, AnyOf(HasSubstr(rank_name(fault.rank) + " to join"),
                                           HasSubstr(rank_name(fault.rank) + " is in no call")))
            << schedule.to_string();
      } else {
        EXPECT_EQ(outcome.message, "") << schedule.to_string();
      }
      break;
    case FaultKind::kFlipBit:
      EXPECT_TRUE(outcome.message.empty() || outcome.message.find("what " + rank_name(fault.rank) +
                                                                  " gave") != std::string::npos)
          << schedule.to_string() << ": " << outcome.message;
      break;
    case FaultKind::kDrop:
      EXPECT_THAT(outcome.message, HasSubstr(rank_name(fault.rank))) << schedule.to_string();
      break;
  }
  if (!outcome.message.empty()) {
    const Outcome again =
        attempt([&](Communicator& world) { train(world, schedule.way, commits); });
    EXPECT_EQ(again.message, "") << schedule.to_string();
  }
  SCOPED_TRACE(schedule.to_string());
  expect_same_end(clean, commits);
  return !outcome.message.empty();
}

TEST(Complaints, ChaosIsAttributedAndLeavesTheSameWeights) {
  constexpr std::uint64_t kSchedules = SX_CHAOS_SCHEDULES;
  constexpr std::uint64_t kAtOnce = 10;  // they sleep most of the time
  std::vector<Clean> clean;
  for (std::uint64_t i = 0; i < 15; ++i) clean.push_back(clean_run(way_of(i)));
  std::atomic<std::uint64_t> next = 0, num_ended = 0;
  std::vector<std::thread> players;
  for (std::uint64_t i = 0; i < kAtOnce; ++i) {
    players.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < kSchedules; seed = next++)
        num_ended += play(schedule_of(seed, clean), clean[seed / 5 % 15]) ? 1 : 0;
    });
  }
  for (std::thread& player : players) player.join();
  fmt::print("{} schedules, {} ended by their fault\n", kSchedules, num_ended.load());
}

}  // namespace
}  // namespace sx
