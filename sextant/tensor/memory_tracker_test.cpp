#include "sextant/tensor/memory_tracker.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "sextant/tensor/arena.h"

namespace sx {
namespace {

at::Tensor floats(std::int64_t n) { return at::empty({n}, at::kFloat); }

class MemoryTracker : public testing::Test {
 protected:
  MemoryTracker() { install_memory_tracker(); }
  std::shared_ptr<MemoryCounter> counter_ = std::make_shared<MemoryCounter>();
};

TEST_F(MemoryTracker, ExactBytesByCategoryAndPeak) {
  const at::Tensor before = floats(1000);
  const MemoryAccount account(counter_);
  EXPECT_EQ(counter_->read().live_total, 0) << "what was there before is not counted";
  const at::Tensor activation = floats(1000);
  EXPECT_EQ(counter_->read().of(MemoryCategory::kActivations), 4000);
  at::Tensor parameter;
  {
    const MemoryScope scope(MemoryCategory::kParams);
    parameter = floats(100);
    const MemoryScope inner(MemoryCategory::kMoments);
    const at::Tensor moment = floats(10);
    EXPECT_EQ(counter_->read().of(MemoryCategory::kMoments), 40);
  }
  const MemoryNumbers numbers = counter_->read();
  EXPECT_EQ(numbers.of(MemoryCategory::kParams), 400);
  EXPECT_EQ(numbers.of(MemoryCategory::kMoments), 0);
  EXPECT_EQ(numbers.live_total, 4400);
  EXPECT_EQ(numbers.peak_total, 4440);
  EXPECT_EQ(numbers.at_peak[static_cast<std::size_t>(MemoryCategory::kMoments)], 40);
  EXPECT_EQ(numbers.peak_states, 440);
  EXPECT_EQ(numbers.allocations, 3);

  retag_memory(parameter.data_ptr(), MemoryCategory::kMaster);
  EXPECT_EQ(counter_->read().of(MemoryCategory::kParams), 0);
  EXPECT_EQ(counter_->read().of(MemoryCategory::kMaster), 400);
  retag_memory(before.data_ptr(), MemoryCategory::kMaster);
  EXPECT_EQ(counter_->read().of(MemoryCategory::kMaster), 400) << "not ours";
}

TEST_F(MemoryTracker, ViewsShareAndOperationsAreSeen) {
  const MemoryAccount account(counter_);
  const at::Tensor a = at::ones({64, 32}), view = a.t().narrow(0, 0, 4);
  EXPECT_EQ(counter_->read().live_total, 64 * 32 * 4);
  {
    const at::Tensor product = at::mm(a, a.t());
    EXPECT_EQ(counter_->read().live_total, 64 * 32 * 4 + 64 * 64 * 4);
  }
  EXPECT_EQ(counter_->read().live_total, 64 * 32 * 4);
  counter_->reset_peaks();
  EXPECT_EQ(counter_->read().peak_total, 64 * 32 * 4);
}

TEST_F(MemoryTracker, BlocksOfAnArenaAreOfTheirClass) {
  const MemoryAccount account(counter_);
  constexpr std::int64_t kOverhang = 64;
  const auto arena = Arena::make();
  Lease params = arena->acquire(1024, MemoryClass::kParams, "p");
  EXPECT_EQ(counter_->read().of(MemoryCategory::kParams), 1024 + kOverhang);
  params.reset();
  const Lease reused = arena->acquire(1024, MemoryClass::kGrads, "g");
  EXPECT_EQ(counter_->read().of(MemoryCategory::kParams), 0);
  EXPECT_EQ(counter_->read().of(MemoryCategory::kMainGrads), 1024 + kOverhang);
}

// A rank's block may be freed by another thread, even after the rank has ended.
TEST_F(MemoryTracker, AnotherThreadFreesWhatARankAllocated) {
  at::Tensor left;
  std::thread([&] {
    const MemoryAccount account(counter_);
    left = floats(500);
  }).join();
  EXPECT_EQ(counter_->read().live_total, 2000);
  left.reset();
  EXPECT_EQ(counter_->read().live_total, 0);
}

TEST_F(MemoryTracker, RanksDoNotDisturbEachOther) {
  constexpr std::uint64_t kSeed = 11;
  std::vector<std::thread> ranks;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([rank] {
      const auto own = std::make_shared<MemoryCounter>();
      const MemoryAccount account(own);
      std::mt19937_64 random(kSeed + rank);
      std::vector<at::Tensor> held;
      std::int64_t live = 0, peak = 0;
      for (int i = 0; i < 2000; ++i) {
        if (!held.empty() && random() % 2 == 0) {
          const std::size_t at = random() % held.size();
          live -= held[at].numel() * 4;
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          held.push_back(floats(static_cast<std::int64_t>(random() % 300)));
          live += held.back().numel() * 4;
          peak = std::max(peak, live);
        }
        ASSERT_EQ(own->read().live_total, live) << "seed " << kSeed + rank << " step " << i;
      }
      EXPECT_EQ(own->read().peak_total, peak);
      held.clear();
      EXPECT_EQ(own->read().live_total, 0);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace sx
