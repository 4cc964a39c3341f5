// kill -9 at 200 random points of saves that three ranks write beside "training".
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "sextant/base/rng.h"
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

[[noreturn]] void save_on_and_on(const fs::path& root, std::int64_t first, int progress) {
  at::set_num_threads(1);
  try {
    run_ranks(kRanks, [&](Communicator& world) {
      CheckpointSaver saver(root, world, {.run_id = "kill", .keep = 3});
      const auto tell = [&](std::int64_t step) {
        if (world.coord() == 0 && write(progress, &step, sizeof step) != sizeof step) _exit(4);
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
  EXPECT_EQ(list_checkpoints(root.path()).size(), 2U);
}

TEST(CheckpointKill, TwoHundredRandomPointsLoseNothing) {
  const TempDir root;
  const RandomStream random(31, "test.kill");
  std::int64_t next = 1, torn = 0, unreported = 0;
  std::int64_t last_limit_us = 20'000;
  for (std::uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed 31, round " + std::to_string(round));
    int progress[2];
    ASSERT_EQ(pipe(progress), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_on_and_on(root.path(), next, progress[1]);
    close(progress[1]);
    std::int64_t reported = 0;
    ASSERT_EQ(read(progress[0], &reported, sizeof reported), sizeof reported);
    if (round % 3 == 0) {  // from inside a later save; the time of one save sets the range
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_EQ(read(progress[0], &reported, sizeof reported), sizeof reported);
      last_limit_us =
          std::clamp<std::int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                       std::chrono::steady_clock::now() - begin)
                                       .count(),
                                   4'000, 200'000);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(
        random.u64(round) % static_cast<std::uint64_t>(last_limit_us * 3 / 2)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
    for (std::int64_t step = 0; read(progress[0], &step, sizeof step) == sizeof step;)
      reported = step;
    close(progress[0]);
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
