#include "sextant/tensor/arena.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

TEST(Arena, ReusesBlocksAndCounts) {
  const auto arena = Arena::make();
  void* first = nullptr;
  {
    const Lease a = arena->acquire(100, MemoryClass::kParams, "a");
    EXPECT_EQ(a.bytes(), 128);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 128, 0U);
    first = a.data();
    const Lease b = arena->acquire(33, at::kFloat, MemoryClass::kGrads, "b");
    EXPECT_EQ(b.bytes(), 256);
    EXPECT_EQ(arena->stats().live_total, 384);
    EXPECT_EQ(arena->live_leases(), (std::vector<std::string>{"a", "b"}));
  }
  EXPECT_EQ(arena->stats().live_total, 0);
  EXPECT_EQ(arena->stats().held, 384);
  EXPECT_EQ(arena->acquire(128, MemoryClass::kTransient, "c").data(), first);
  EXPECT_EQ(arena->stats().allocations, 2);
  EXPECT_EQ(arena->stats().peak[static_cast<int>(MemoryClass::kGrads)], 256);
  EXPECT_FALSE(arena->acquire(0, MemoryClass::kTransient, "nothing"));
  arena->trim();
  EXPECT_EQ(arena->stats().held, 0);
}

// What is kept for reuse never adds to the largest sum of leases.
TEST(Arena, HoldsNoMoreThanTheLargestSumOfLeases) {
  const RandomStream random(9, "test.arena");
  const auto arena = Arena::make();
  std::vector<Lease> leases;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    if (!leases.empty() && random.u64(2 * i) % 5 < 2) {
      leases.erase(leases.begin() +
                   static_cast<std::ptrdiff_t>(random.u64(2 * i + 1) % leases.size()));
    } else if (leases.size() < 12) {
      leases.push_back(
          arena->acquire(static_cast<std::int64_t>(random.u64(2 * i + 1) % 7 + 1) * 128,
                         MemoryClass::kTransient, "x"));
    }
    ASSERT_LE(arena->stats().held, arena->stats().peak_total);
    ASSERT_EQ(arena->stats().peak_held, arena->stats().peak_total) << i;
  }
}

TEST(Arena, StepsAfterTheFirstAllocateAlike) {
  const auto arena = Arena::make();
  std::vector<std::int64_t> allocations;
  for (int step = 0; step < 6; ++step) {
    const std::int64_t before = arena->stats().allocations;
    for (int unit = 0; unit < 4; ++unit) {
      const Lease wire = arena->acquire(1024 * (1 + unit % 2), MemoryClass::kTransient, "wire");
      const Lease grad = arena->acquire(2048, MemoryClass::kTransient, "grad");
    }
    allocations.push_back(arena->stats().allocations - before);
  }
  for (std::size_t step = 2; step < allocations.size(); ++step)
    EXPECT_EQ(allocations[step], allocations[1]);
}

TEST(Arena, PoisonAndCheckFindLateWrites) {
  const auto arena = Arena::make({.poison = true, .check = true});
  at::Tensor late;
  {
    const Lease lease =
        arena->acquire(8, at::kDouble, MemoryClass::kTransient, "layers.2 gathered");
    late = lease.view(at::kDouble, 0, 8);
    EXPECT_TRUE(late.isnan().all().item<bool>());
    late.zero_();
  }
  EXPECT_TRUE(late.isnan().all().item<bool>());
  late.zero_();  // after its lease
  try {
    (void)arena->acquire(8, at::kDouble, MemoryClass::kTransient, "next");
    ADD_FAILURE() << "not found";
  } catch (const ContractError& e) {
    EXPECT_NE(std::string(e.what()).find("layers.2 gathered was written after its lease had ended"),
              std::string::npos);
  }
}

TEST(Arena, LeaseOutlivesItsOwnersArenaPointer) {
  Lease lease;
  {
    const auto arena = Arena::make();
    lease = arena->acquire(256, MemoryClass::kTransient, "x");
  }
  lease.view(at::kFloat, 0, 64).fill_(1.0);
  EXPECT_ANY_THROW(lease.view(at::kFloat, 0, 65));
}

}  // namespace
}  // namespace sx
