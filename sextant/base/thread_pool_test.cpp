#include "sextant/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace sx {
namespace {

TEST(ThreadPoolTest, RunsEveryTaskBeforeWaitReturns) {
  ThreadPool pool(3);
  EXPECT_EQ(pool.num_threads(), 3U);
  std::atomic<int> sum{0};
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) pool.submit([&sum] { ++sum; });
    pool.wait();
    EXPECT_EQ(sum, 50 * (round + 1));
  }
}

TEST(ThreadPoolTest, DestructorFinishesQueuedTasks) {
  std::atomic<int> sum{0};
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.submit([&sum] { ++sum; });
  }
  EXPECT_EQ(sum, 100);
}

TEST(ThreadPoolTest, ParallelForVisitsEachIndexOnce) {
  ThreadPool pool(4);
  for (const std::size_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> visits(count);
    pool.parallel_for(count, [&](std::size_t i) { ++visits[i]; });
    for (const auto& num : visits) EXPECT_EQ(num, 1);
  }
}

TEST(ThreadPoolTest, ParallelForNestsInsideTasks) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  pool.parallel_for(8, [&](std::size_t) { pool.parallel_for(8, [&](std::size_t) { ++sum; }); });
  EXPECT_EQ(sum, 64);
}

TEST(ThreadPoolTest, ContractErrorsReachTheCaller) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(10,
                                 [](std::size_t i) {
                                   if (i == 7) throw std::logic_error("broken");
                                 }),
               std::logic_error);
  pool.submit([] { throw std::logic_error("broken"); });
  EXPECT_THROW(pool.wait(), std::logic_error);
  pool.wait();  // reported once
}

TEST(ThreadPoolTest, UsableCoresIsAtLeastOne) { EXPECT_GE(usable_cores(), 1U); }

}  // namespace
}  // namespace sx
