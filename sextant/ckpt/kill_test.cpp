// kill -9 at 200 random points of saves that three ranks write beside "training".
#include <gtest/gtest.h>

#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "sextant/base/rng.h"
#include "sextant/ckpt/kill_testing.h"
#include "sextant/ckpt/saver.h"
#include "sextant/dist/threads.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

constexpr std::int64_t kRanks = 3;
constexpr std::int64_t kNumel = 90'000;

CheckpointContent part_of_step(std::int64_t step, Communicator& world) {
  const auto x = static_cast<double>(step);
  const std::int64_t begin = world.coord() * kNumel / kRanks, count = kNumel / kRanks;
  CheckpointContent content;
  content.step = step;
  content.model_parts = {{"w",
                          {300, 300},
                          Region::flat(begin, count),
                          at::arange(begin, begin + count, at::kFloat).mul(x)}};
  content.optim = {{"optim.w.exp_avg", at::full({20'000}, x / 7.0, at::kDouble)}};
  content.states["loader"] = {{"position", step}};
  return content;
}

[[noreturn]] void save_on_three_ranks(const fs::path& root, std::int64_t first,
                                      const SaveReports& reports) {
  at::set_num_threads(1);
  try {
    run_ranks(kRanks, [&](Communicator& world) {
      CheckpointSaver saver(root, world, {.run_id = "kill", .keep = 3});
      const auto tell = [&](std::int64_t step) {
        if (world.coord() == 0) reports.tell(step);
      };
      tell(first - 1);
      for (std::int64_t step = first;; ++step) {
        if (!saver.start(part_of_step(step, world)).ok() || !saver.wait().ok()) _exit(3);
        tell(step);
      }
    });
  } catch (const std::exception&) {
    _exit(5);
  }
  _exit(6);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Complaint 24: 200 saves keep no memory.
TEST(CheckpointMemory, TwoHundredSavesAndMemoryStaysFlat) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  CheckpointSaver saver(root.path(), solo, {.keep = 2});
  CheckpointContent content;
  content.model = {{"w", at::zeros({500'000}, at::kFloat)}};
  const auto save = [&](std::int64_t step) {
    content.step = step;
    ASSERT_TRUE(saver.start(content).ok());
    ASSERT_TRUE(saver.wait().ok());
  };
  for (std::int64_t step = 1; step <= 20; ++step) save(step);
  const std::int64_t before = resident_bytes();
  for (std::int64_t step = 21; step <= 200; ++step) save(step);
  EXPECT_LT(resident_bytes() - before, 1 << 20);
  EXPECT_EQ(saver.staging_bytes(), 2'000'000);
  EXPECT_EQ(list_checkpoints(root.path()).value().size(), 2U);
}

TEST(CheckpointKill, TwoHundredRandomPointsLoseNothing) {
  const TempDir root;
  const RandomStream random(31, "test.kill");
  std::int64_t next = 1, torn = 0, unreported = 0;
  constexpr std::chrono::microseconds kShortest{4'000}, kLongest{200'000};
  std::chrono::microseconds limit{20'000};
  for (std::uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed 31, round " + std::to_string(round));
    const bool from_second = round % 3 == 0;  // the time of one save sets the range
    const KilledSaves killed = kill_while_saving(
        [&](const SaveReports& reports) { save_on_three_ranks(root.path(), next, reports); },
        from_second,
        [&] {
          return std::chrono::microseconds(random.u64(round) %
                                           static_cast<std::uint64_t>(limit.count() * 3 / 2));
        });
    if (from_second) limit = std::clamp(killed.one_save, kShortest, kLongest);
    const std::int64_t reported = killed.last_reported;
    for (const auto& entry : fs::directory_iterator(root.path()))
      torn += entry.path().filename().string().starts_with(".tmp") ? 1 : 0;

    const auto found = find_newest_checkpoint(root.path(), /*full_hashes=*/true);
    ASSERT_TRUE(found.ok());
    if (!found->has_value()) {
      ASSERT_EQ(reported, 0);
      continue;
    }
    const auto checkpoint = Checkpoint::open(**found);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    const std::int64_t step = checkpoint->step();
    ASSERT_TRUE(step == reported || step == reported + 1) << step << " after " << reported;
    unreported += step == reported + 1 ? 1 : 0;
    EXPECT_TRUE(
        at::equal(checkpoint->load("w").value(),
                  at::arange(kNumel, at::kFloat).mul(static_cast<double>(step)).view({300, 300})));
    EXPECT_EQ((*checkpoint->state("loader"))["position"], step);
    next = step + 1;
  }
  RecordProperty("torn_folders_seen", static_cast<int>(torn));
  RecordProperty("commits_not_reported", static_cast<int>(unreported));
  EXPECT_GT(torn, 40);  // the kills fell into saves
}

}  // namespace
}  // namespace sx
