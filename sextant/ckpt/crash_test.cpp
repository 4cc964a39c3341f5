// What a save leaves behind when it does not end: killed at any moment, or out of space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "sextant/base/rng.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/ckpt/kill_testing.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::HasSubstr;

CheckpointContent content_of(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  const double x = static_cast<double>(step);
  content.model = {{"a", at::full({40'000}, x, at::kFloat)},
                   {"b", at::full({300, 100}, -x, at::kFloat)}};
  content.optim = {{"optim.a.exp_avg", at::full({40'000}, x / 7.0, at::kDouble)}};
  content.states["loader"] = {{"position", step}};
  return content;
}

const SaveOptions kOptions{.run_id = "crash", .keep = 3};

[[noreturn]] void save_on_and_on(const fs::path& root, std::int64_t first,
                                 const SaveReports& reports) {
  at::set_num_threads(1);  // the parent's OpenMP workers do not exist on this side of the fork
  Communicator solo = Communicator::solo();
  reports.tell(first - 1);
  for (std::int64_t step = first;; ++step) {
    if (!save_checkpoint(root, content_of(step), solo, kOptions).ok()) _exit(3);
    reports.tell(step);
  }
}

// 50 times: a child saves on and on, is killed after a random time, and what it leaves must hold
// the newest checkpoint that it had reported as saved (or the one it was just finishing), whole.
TEST(CheckpointCrash, KilledAtRandomMoments) {
  const TempDir root;
  const RandomStream random(11, "test.kill");
  Communicator solo = Communicator::solo();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(save_checkpoint(root.path(), content_of(1), solo, kOptions).ok());
  // Within about two saves, however fast the disk is.
  const auto limit = std::clamp<std::chrono::microseconds>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                            start) *
          2,
      std::chrono::milliseconds(4), std::chrono::milliseconds(60));
  std::int64_t next = 2;
  for (std::uint64_t round = 0; round < 50; ++round) {
    SCOPED_TRACE("seed 11, round " + std::to_string(round));
    const KilledSaves killed = kill_while_saving(
        [&](const SaveReports& reports) { save_on_and_on(root.path(), next, reports); },
        round % 4 == 0,  // from a moment inside the second save, however slow the machine
        [&] {
          return std::chrono::microseconds(random.u64(round) %
                                           static_cast<std::uint64_t>(limit.count()));
        });
    const std::int64_t reported = killed.last_reported;

    const auto found = find_newest_checkpoint(root.path(), /*full_hashes=*/true);
    ASSERT_TRUE(found.ok());
    ASSERT_TRUE(found->has_value());
    const auto checkpoint = Checkpoint::open(**found);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    const std::int64_t step = checkpoint->step();
    EXPECT_TRUE(step == reported || step == reported + 1)
        << step << " after " << reported << " was saved";
    const CheckpointContent want = content_of(step);
    EXPECT_TRUE(at::equal(*checkpoint->load("b"), want.model[1].tensor));
    EXPECT_EQ((*checkpoint->state("loader"))["position"], step);
    next = step + 1;
  }
  EXPECT_GE(next, 2 + 50 / 4);  // saves that were complete
}

TEST(CheckpointCrash, OutOfSpaceIsAnErrorAndOlderOnesStay) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  ASSERT_TRUE(save_checkpoint(root.path(), content_of(1), solo, kOptions).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{50'000}, rlim_t{290'000}}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto saved = save_checkpoint(root.path(), content_of(2), solo, kOptions);
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(saved.ok()) << limit;
    EXPECT_EQ(saved.error().kind, ErrorKind::kIo);
    EXPECT_EQ(**find_newest_checkpoint(root.path(), true), root / "step-0000001");
    EXPECT_FALSE(fs::exists(root / "step-0000002"));
    EXPECT_FALSE(fs::exists(root / ".tmp-step-0000002-crash"));
  }
  signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(save_checkpoint(root.path(), content_of(2), solo, kOptions).ok());
  EXPECT_EQ(**find_newest_checkpoint(root.path(), true), root / "step-0000002");
}

TEST(CheckpointCrash, FolderThatCannotBeWritten) {
  const TempDir root;
  ASSERT_TRUE(write_file_atomic(root / "file", "x").ok());
  Communicator solo = Communicator::solo();
  const auto saved = save_checkpoint(root / "file", content_of(1), solo, kOptions);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace sx
