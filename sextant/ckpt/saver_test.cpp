#include "sextant/ckpt/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <csignal>
#include <thread>

#include "sextant/base/check.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kNumel = 60'000;

/// Each rank's own third of "w", and "r" that all have.
CheckpointContent content_of(std::int64_t step, Communicator& world) {
  const auto x = static_cast<double>(step);
  const std::int64_t begin = world.coord() * kNumel / world.degree();
  const std::int64_t end = (world.coord() + 1) * kNumel / world.degree();
  CheckpointContent content;
  content.step = step;
  content.model_parts = {{"w",
                          {kNumel},
                          Region::flat(begin, end - begin),
                          at::arange(begin, end, at::kDouble).add(x)}};
  content.model = {{"r", at::full({1000}, x, at::kFloat)}};
  content.optim = {{"optim.r.exp_avg", at::full({1000}, -x, at::kFloat)}};
  content.states["loader"] = {{"position", step}};
  return content;
}

void expect_saved(const fs::path& root, std::int64_t step) {
  const auto newest = find_newest_checkpoint(root, /*full_hashes=*/true);
  ASSERT_TRUE(newest.ok() && newest->has_value());
  const auto checkpoint = Checkpoint::open(**newest);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->step(), step);
  const auto x = static_cast<double>(step);
  EXPECT_TRUE(at::equal(checkpoint->load("w").value(), at::arange(kNumel, at::kDouble).add(x)));
  EXPECT_TRUE(at::equal(checkpoint->load("r").value(), at::full({1000}, x, at::kFloat)));
  EXPECT_EQ((*checkpoint->state("loader"))["position"], step);
}

void change(const CheckpointContent& content) {
  for (const auto* parts : {&content.model_parts, &content.optim_parts}) {
    for (const TensorPart& part : *parts) part.values.fill_(1e9);
  }
  for (const auto* tensors : {&content.model, &content.optim}) {
    for (const NamedTensor& tensor : *tensors) tensor.tensor.fill_(1e9);
  }
}

// Complaint 24: what is saved is what was there at `start`, whatever happens to the tensors after.
TEST(CheckpointSaver, TensorsMayChangeRightAfterStart) {
  for (const std::int64_t ranks : {1, 3}) {
    const TempDir root;
    rank_test(ranks, [&](Communicator& world) {
      CheckpointSaver saver(root.path(), world, {});
      for (std::int64_t step = 1; step <= 4; ++step) {
        const CheckpointContent content = content_of(step, world);
        const bool now = step % 2 == 1;
        ASSERT_TRUE(saver
                        .start(content, now ? CheckpointSaver::Copy::kBeforeReturn
                                            : CheckpointSaver::Copy::kInBackground)
                        .ok());
        if (!now) saver.wait_copied();
        change(content);
        const auto report = saver.wait();
        ASSERT_TRUE(report.ok()) << report.error().to_string();
        EXPECT_FALSE(saver.busy());
        if (world.coord() == 0) {
          ASSERT_TRUE(report->has_value());
          EXPECT_GT((*report)->bytes, kNumel * 8);
          expect_saved(root.path(), step);
        }
        world.barrier();
      }
      EXPECT_FALSE(saver.wait().value().has_value());
    });
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root / "step-0000004"))
      names.push_back(entry.path().filename().string());
    EXPECT_THAT(names, testing::Not(testing::Contains(HasSubstr("part-"))));
  }
}

TEST(CheckpointSaver, TellsOnceWhenItIsDone) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  CheckpointSaver saver(root.path(), solo, {});
  EXPECT_FALSE(saver.finished().has_value());
  ASSERT_TRUE(saver.start(content_of(1, solo)).ok());
  std::optional<Result<SaveReport>> finished;
  while (!finished) finished = saver.finished();
  ASSERT_TRUE(finished->ok());
  EXPECT_EQ((*finished)->path, root / "step-0000001");
  EXPECT_FALSE(saver.finished().has_value());
  EXPECT_THROW((void)saver.start(content_of(2, solo)), ContractError);
  EXPECT_FALSE(saver.wait().value().has_value());
  ASSERT_TRUE(saver.start(content_of(2, solo)).ok());
  EXPECT_TRUE(saver.wait().value().has_value());
}

// A disk that is full under one rank's file: the failure reaches every rank, nothing is left
// behind, and the next save works.
TEST(CheckpointSaver, AFailedWriteIsEverybodysErrorAndOlderOnesStay) {
  const TempDir root;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rank_test(3, [&](Communicator& world) {
    CheckpointSaver saver(root.path(), world, {});
    ASSERT_TRUE(saver.save(content_of(1, world)).ok());
    world.barrier();
    if (world.coord() == 0) {
      rlimit small = before;
      small.rlim_cur = 50'000;
      setrlimit(RLIMIT_FSIZE, &small);
    }
    world.barrier();
    ASSERT_TRUE(saver.start(content_of(2, world)).ok());
    const auto ended = saver.wait();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().kind, ErrorKind::kIo);
    world.barrier();
    if (world.coord() == 0) {
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_FALSE(fs::exists(root / "step-0000002"));
      EXPECT_FALSE(fs::exists(root / ".tmp-step-0000002-run"));
      expect_saved(root.path(), 1);
    }
    world.barrier();
    ASSERT_TRUE(saver.start(content_of(3, world)).ok());
    ASSERT_TRUE(saver.wait().ok());
  });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_handler);
  expect_saved(root.path(), 3);
}

TEST(CheckpointSaver, NamesThatCannotBeSavedAreRefusedOnEveryRank) {
  const TempDir root;
  rank_test(2, [&](Communicator& world) {
    CheckpointSaver saver(root.path(), world, {});
    CheckpointContent content = content_of(1, world);
    if (world.coord() == 1) content.model_parts[0].name = "a@b";
    ASSERT_TRUE(saver.start(content).ok());
    const auto ended = saver.wait();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(ended.error().message, HasSubstr("a@b"));
  });
  EXPECT_TRUE(list_checkpoints(root.path()).value().empty());
}

// Two programs that save the same steps into one folder, under one run's name and under two.
TEST(CheckpointSaver, TwoThatRaceLeaveWholeCheckpoints) {
  for (const bool same_run : {true, false}) {
    const TempDir root;
    const auto save_all = [&](const std::string& run) {
      Communicator solo = Communicator::solo();
      CheckpointSaver saver(root.path(), solo, {.run_id = run});
      for (std::int64_t step = 1; step <= 5; ++step) {
        ASSERT_TRUE(saver.start(content_of(step, solo)).ok());
        const auto ended = saver.wait();
        ASSERT_TRUE(ended.ok()) << ended.error().to_string();
        const auto again =
            save_checkpoint(root.path(), content_of(step, solo), solo, {.run_id = run});
        ASSERT_TRUE(again.ok()) << again.error().to_string();
      }
    };
    std::thread other(save_all, same_run ? "a" : "b");
    save_all("a");
    other.join();
    expect_saved(root.path(), 5);
    const std::vector<fs::path> left = list_checkpoints(root.path()).value();
    for (const fs::path& path : left)
      EXPECT_TRUE(verify_checkpoint(path)->empty()) << path;
    EXPECT_EQ(left.size(), 5U);
    for (const auto& entry : fs::directory_iterator(root.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
}

}  // namespace
}  // namespace sx
