// The thread transport as a machine: failures reach everybody at once, orders of waits do not
// matter, waiting costs nothing.
#include "sextant/dist/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;
using testing::filled;
using ::testing::HasSubstr;
using testing::seconds_since;

TEST(ThreadsFailure, ExceptionOnOneRankEndsAllInUnder100Ms) {
  std::atomic<int> others = 0;
  std::atomic<double> slowest = 0.0;
  Clock::time_point thrown;
  try {
    run_ranks(4, [&](Communicator& world) {
      at::Tensor t = filled(10'000, 1.0);
      world.start_all_reduce(t, ReduceOp::kSum).wait();
      if (world.coord() == 1) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(50));  // the others sleep in their wait
        thrown = Clock::now();
        throw std::runtime_error("loss is not finite");
      }
      try {
        world.start_all_reduce(t, ReduceOp::kSum, {.unit = "bucket 3"}).wait();
      } catch (const DistError& e) {
        ++others;
        slowest = std::max(slowest.load(), seconds_since(thrown));
        EXPECT_EQ(e.fault(), DistFault::kAborted);
        EXPECT_EQ(e.origin_rank(), 1);
        EXPECT_EQ(e.op(), Collective::kAllReduce);
        EXPECT_EQ(e.sequence(), 1u);
        EXPECT_EQ(e.bytes(), 40'000);
        EXPECT_GT(e.waited().value, 0.0);
        EXPECT_STREQ(e.what(), "rank 1: loss is not finite");
        throw;
      }
    });
    FAIL() << "no exception";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "loss is not finite");  // the origin's own, not a DistError
    EXPECT_EQ(dynamic_cast<const DistError*>(&e), nullptr);
  }
  EXPECT_EQ(others, 3);
  EXPECT_LT(slowest, 0.1);
}

/// Runs `body`, which must fail; every rank must see the same message. Returns it.
std::string message_on_all_ranks(std::int64_t world_size, DistFault fault,
                                 const std::function<void(Communicator&)>& body,
                                 Seconds timeout = Seconds{20.0}) {
  std::vector<std::string> messages(static_cast<std::size_t>(world_size));
  EXPECT_THROW(run_ranks(world_size,
                         [&](Communicator& world) {
                           try {
                             body(world);
                             world.barrier();
                           } catch (const DistError& e) {
                             EXPECT_EQ(e.fault(), fault);
                             messages[static_cast<std::size_t>(world.coord())] = e.what();
                             throw;
                           }
                         },
                         {.timeout = timeout}),
               DistError);
  for (const std::string& message : messages) {
    EXPECT_EQ(message, messages[0]);
  }
  return messages[0];
}

TEST(ThreadsMismatch, BothCallsAreNamedOnEveryRank) {
  const auto differ = [](const std::function<void(Communicator&)>& on_rank_1,
                         const std::function<void(Communicator&)>& on_others) {
    return message_on_all_ranks(3, DistFault::kMismatch, [&](Communicator& world) {
      (world.coord() == 1 ? on_rank_1 : on_others)(world);
    });
  };
  at::Tensor a[3] = {filled(8, 1), filled(8, 1), filled(8, 1)};
  const auto sum = [&](Communicator& w) {
    w.start_all_reduce(a[w.coord()], ReduceOp::kSum).wait();
  };

  std::string text =
      differ([&](Communicator& w) { w.start_all_reduce(a[1], ReduceOp::kMax).wait(); }, sum);
  EXPECT_THAT(text, HasSubstr("all_reduce sum Float x 8"));
  EXPECT_THAT(text, HasSubstr("rank 1 calls all_reduce max Float x 8"));

  text = differ([&](Communicator& w) { w.start_all_reduce(filled(9, 1), ReduceOp::kSum).wait(); },
                sum);
  EXPECT_THAT(text, HasSubstr("Float x 9"));

  text = differ(
      [](Communicator& w) {
        w.start_all_reduce(at::zeros({8}, at::kDouble), ReduceOp::kSum).wait();
      },
      sum);
  EXPECT_THAT(text, HasSubstr("Double x 8"));

  text = differ([](Communicator& w) { w.barrier(); }, sum);
  EXPECT_THAT(text, HasSubstr("barrier"));

  text = differ([&](Communicator& w) { w.start_broadcast(a[1], 1).wait(); },
                [&](Communicator& w) { w.start_broadcast(a[w.coord()], 0).wait(); });
  EXPECT_THAT(text, HasSubstr("root 1"));
  EXPECT_THAT(text, HasSubstr("root 0"));

  text = differ(
      [](Communicator& w) {
        w.start_all_gather(filled(6, 0), filled(3, 1), {2, 3, 1}).wait();
      },
      [](Communicator& w) {
        const std::int64_t own[] = {2, 2, 2};
        w.start_all_gather(filled(6, 0), filled(own[w.coord()], 1), {2, 2, 2}).wait();
      });
  EXPECT_THAT(text, HasSubstr("receive counts [2 3 1]"));
}

TEST(ThreadsMismatch, UnitsOfEqualShapeSwappedOnOneRank) {
  const std::string text = message_on_all_ranks(2, DistFault::kMismatch, [](Communicator& world) {
    const char* order[2][2] = {{"layers.0", "layers.1"}, {"layers.1", "layers.0"}};
    at::Tensor x = filled(100, 1.0);
    at::Tensor y = filled(100, 1.0);
    Handle first = world.start_all_reduce(x, ReduceOp::kSum, {.unit = order[world.coord()][0]});
    Handle second = world.start_all_reduce(y, ReduceOp::kSum, {.unit = order[world.coord()][1]});
    first.wait();
    second.wait();
  });
  EXPECT_THAT(text, HasSubstr("layers.0"));
  EXPECT_THAT(text, HasSubstr("layers.1"));
}

TEST(ThreadsMismatch, SentAndReceivedDiffer) {
  const std::string text = message_on_all_ranks(2, DistFault::kMismatch, [](Communicator& world) {
    if (world.coord() == 0) world.start_send(filled(4, 1.0), 1, 5).wait();
    if (world.coord() == 1) world.start_recv(filled(3, 0.0), 0, 5).wait();
  });
  EXPECT_THAT(text, HasSubstr("rank 0 calls send Float x 4 to 1, tag 5"));
  EXPECT_THAT(text, HasSubstr("Float x 3"));
}

TEST(ThreadsFailure, TimeoutNamesTheMissingRanks) {
  std::atomic<bool> give_up = false;
  const std::string text = message_on_all_ranks(
      4, DistFault::kTimeout,
      [&](Communicator& world) {
        if (world.coord() >= 2) {
          while (!give_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        try {
          world.barrier();
        } catch (...) {
          give_up = true;
          throw;
        }
      },
      Seconds{0.1});
  EXPECT_THAT(text, HasSubstr("for rank 2, 3 to join"));
}

TEST(ThreadsFailure, RankThatEndedIsNotWaitedFor) {
  const auto start = Clock::now();
  try {
    run_ranks(3,
              [](Communicator& world) {
                if (world.coord() == 2) return;
                world.barrier();
              },
              {.timeout = Seconds{20.0}});
    FAIL() << "no exception";
  } catch (const DistError& e) {
    EXPECT_EQ(e.fault(), DistFault::kPeerLeft);
    EXPECT_THAT(e.what(), HasSubstr("rank 2 ended its work"));
  }
  EXPECT_LT(seconds_since(start), 2.0);
}

TEST(ThreadsFailure, AbortCarriesItsReason) {
  try {
    run_ranks(2, [](Communicator& world) {
      if (world.coord() == 0) world.abort("asked to");
      world.barrier();
    });
    FAIL() << "no exception";
  } catch (const DistError& e) {
    EXPECT_THAT(e.what(), HasSubstr("asked to"));
    EXPECT_EQ(e.origin_rank(), 0);
  }
}

TEST(ThreadsFailure, AnAbortedWorldDoesNotHarmTheNext) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(run_ranks(3,
                           [&](Communicator& world) {
                             at::Tensor t = filled(50'000, 1.0);
                             Handle pending = world.start_all_reduce(t, ReduceOp::kSum);
                             if (world.coord() == round % 3) throw std::runtime_error("x");
                             pending.wait();
                             world.barrier();
                           }),
                 std::runtime_error);
    rank_test(3, [](Communicator& world) { world.barrier(); });
  }
}

#ifndef NDEBUG
TEST(ThreadsHandle, DroppedWithoutWaitIsAContractError) {
  try {
    run_ranks(2, [](Communicator& world) {
      at::Tensor t = filled(4, 1.0);
      { Handle dropped = world.start_all_reduce(t, ReduceOp::kSum, {.unit = "bucket 7"}); }
      world.barrier();
    });
    FAIL() << "no exception";
  } catch (const ContractError& e) {
    EXPECT_THAT(e.what(), HasSubstr("bucket 7"));
  }
}
#endif

TEST(ThreadsHandle, IsDoneDrivesWithoutBlocking) {
  rank_test(2, [](Communicator& world) {
    at::Tensor t = filled(50'000, 1.0);
    Handle handle = world.start_all_reduce(t, ReduceOp::kSum);
    while (!handle.is_done()) std::this_thread::yield();
    handle.wait();
    EXPECT_TRUE(handle.is_done());
    EXPECT_EQ(t[49'999].item<float>(), 2.0f);
  });
}

TEST(ThreadsHandle, OwnsItsTensors) {
  rank_test(2, [](Communicator& world) {
    at::Tensor out = at::empty({2 * 30'000}, at::kFloat);
    Handle handle = world.start_all_gather(out, filled(30'000, world.coord() + 1.0));
    handle.wait();
    EXPECT_EQ(out[0].item<float>(), 1.0f);
    EXPECT_EQ(out[59'999].item<float>(), 2.0f);
  });
}

TEST(ThreadsOrder, SendsMatchByTagInOrder) {
  rank_test(2, [](Communicator& world) {
    if (world.coord() == 0) {
      for (int i = 0; i < 6; ++i) world.start_send(filled(2, i), 1, i % 2).wait();
    } else {
      std::vector<at::Tensor> got;
      for (const int tag : {1, 1, 0, 1, 0, 0}) {
        got.push_back(filled(2, -1));
        world.start_recv(got.back(), 0, tag).wait();
      }
      const double want[] = {1, 3, 0, 5, 2, 4};
      for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(got[i][0].item<float>(), want[i]);
    }
    at::Tensor own = filled(1, 0);
    Handle receive = world.start_recv(own, world.coord());
    world.start_send(filled(1, 42), world.coord()).wait();
    receive.wait();
    EXPECT_EQ(own.item<float>(), 42.0f);
  });
}

TEST(ThreadsOrder, SenderMayReuseItsBufferAfterWait) {
  rank_test(2, [](Communicator& world) {
    at::Tensor t = filled(100'000, 5.0);
    if (world.coord() == 0) {
      world.start_send(t, 1).wait();
      t.fill_(9.0);
      world.barrier();
    } else {
      world.barrier();
      world.start_recv(t, 0).wait();
      EXPECT_EQ(t.min().item<float>(), 5.0f);
    }
  });
}

TEST(ThreadsOrder, TwoRanksThatWaitForEachOtherAreToldAtOnce) {
  const auto start = Clock::now();
  const std::string text = message_on_all_ranks(2, DistFault::kDeadlock, [](Communicator& world) {
    at::Tensor t = filled(4, 0.0);
    world.start_recv(t, 1 - world.coord(), 3).wait();
  });
  EXPECT_THAT(text, HasSubstr("no rank can go on: rank 0 waits in recv Float x 4 from 1, tag 3"));
  EXPECT_THAT(text, HasSubstr("; rank 1 waits in recv Float x 4 from 0, tag 3"));
  EXPECT_LT(seconds_since(start), 2.0);
}

// A started call goes on while its owners compute.
TEST(ThreadsProgress, AThreadDoesTheWorkOfRanksThatDoNotWait) {
  rank_test(2,
            [](Communicator& world) {
              EXPECT_TRUE(world.capabilities().overlap);
              at::Tensor t = filled(1'000'000, world.coord() + 1.0);
              world.barrier();
              Handle handle = world.start_all_reduce(t, ReduceOp::kSum);
              const auto start = Clock::now();
              while (seconds_since(start) < 0.2) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
              const auto before_wait = Clock::now();
              handle.wait();
              EXPECT_LT(seconds_since(before_wait), 0.1);
              EXPECT_EQ(t[999'999].item<float>(), 3.0f);
            },
            {.timeout = Seconds{20.0}, .progress_threads = 1});
}

TEST(ThreadsGroups, RowsAndColumnsOfAMesh) {
  rank_test(8, [](Communicator& world) {
    const std::int64_t row = world.coord() / 4;
    const std::int64_t column = world.coord() % 4;
    Communicator rows = world.make_group({4 * row, 4 * row + 1, 4 * row + 2, 4 * row + 3},
                                         Axis::kTp, Purpose::kReduce);
    Communicator columns =
        world.make_group({column, column + 4}, Axis::kDpReplicate, Purpose::kReduce);
    Communicator alone = world.make_group({world.coord()}, Axis::kCp, Purpose::kReduce);
    EXPECT_EQ(rows.coord(), column);
    EXPECT_EQ(columns.coord(), row);
    EXPECT_EQ(columns.axis().to_string(), "dp_replicate");
    EXPECT_STREQ(alone.capabilities().transport, "solo");
    at::Tensor a = filled(3, static_cast<double>(world.coord()));
    at::Tensor b = a.clone();
    Handle across = columns.start_all_reduce(a, ReduceOp::kSum);
    Handle along = rows.start_all_reduce(b, ReduceOp::kSum);
    along.wait();
    across.wait();
    EXPECT_EQ(a[0].item<float>(), static_cast<float>(2 * column + 4));
    EXPECT_EQ(b[0].item<float>(), static_cast<float>(16 * row + 6));
    EXPECT_THROW(world.make_group({(world.coord() + 1) % 8}, Axis::kTp, Purpose::kReduce),
                 ContractError);
  });
}

TEST(ThreadsWaiting, SixteenRanksMakeTenThousandSmallCollectives) {
  const auto start = Clock::now();
  rank_test(16, [](Communicator& world) {
    at::Tensor t = at::empty({16}, at::kFloat);
    for (int i = 0; i < 10'000; ++i) {
      t.fill_(1.0);
      world.start_all_reduce(t, ReduceOp::kSum).wait();
      ASSERT_EQ(t[15].item<float>(), 16.0f);
    }
  });
  EXPECT_LT(seconds_since(start), 60.0);
}

TEST(ThreadsMemory, CallsThatAllRanksHavePassedAreFreed) {
  const auto resident_bytes = [] {
    std::ifstream statm("/proc/self/statm");
    std::int64_t pages = 0;
    statm >> pages >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  rank_test(2, [&](Communicator& world) {
    at::Tensor t = filled(4096, 1.0);  // 16 KiB: the largest input that is copied at the start
    const auto reduce = [&](int times) {
      for (int i = 0; i < times; ++i) world.start_all_reduce(t, ReduceOp::kMax).wait();
    };
    reduce(100);
    world.barrier();
    const std::int64_t before = resident_bytes();
    reduce(4000);  // 128 MiB of copies
    world.barrier();
    EXPECT_LT(resident_bytes() - before, std::int64_t{32} << 20);
  });
}

TEST(ThreadsWaiting, AWaitingRankSleeps) {
  rank_test(2, [](Communicator& world) {
    const auto cpu_seconds = [] {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    };
    world.barrier();
    if (world.coord() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      world.barrier();
    } else {
      const double before = cpu_seconds();
      world.barrier();
      EXPECT_LT(cpu_seconds() - before, 0.05 * 0.3);
    }
  });
}

TEST(Solo, CopiesWhereInputAndOutputDiffer) {
  Communicator solo = Communicator::solo();
  EXPECT_EQ(solo.degree(), 1);
  EXPECT_EQ(solo.axis().to_string(), "world");
  const at::Tensor in = filled(5, 3.0);
  at::Tensor out = filled(5, 0.0);
  solo.start_all_gather(out, in).wait();
  EXPECT_TRUE(at::equal(out, in));
  out.zero_();
  solo.start_reduce_scatter(out, in, ReduceOp::kSum).wait();
  EXPECT_TRUE(at::equal(out, in));
  solo.start_send(in, 0, 3).wait();
  out.zero_();
  solo.start_recv(out, 0, 3).wait();
  EXPECT_TRUE(at::equal(out, in));
  solo.barrier();
  solo.abort("end");
  EXPECT_THROW(solo.barrier(), DistError);
}

}  // namespace
}  // namespace sx
