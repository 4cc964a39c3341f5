#include "sextant/ckpt/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <fstream>

#include "sextant/ckpt/diff.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CheckpointContent example_content() {
  CheckpointContent content;
  content.step = 9;
  content.tokens = 90;
  content.fingerprint = "0123456789abcdef";
  content.model = {{"a", at::arange(700'000, at::kFloat).view({700, 1000})},
                   {"b", at::arange(11, at::kBFloat16)},
                   {"empty", at::zeros({0, 3}, at::kFloat)},
                   {"scalar", at::full({}, 4.5, at::kDouble)}};
  content.optim = {{"optim.a.exp_avg", at::arange(700'000, at::kFloat).neg().view({700, 1000})}};
  content.states["loader"] = {{"position", 9}};
  content.files["model.json"] = "{}\n";
  content.files["tokenizer/vocab"] = "x";
  return content;
}

fs::path saved_on(std::int64_t ranks, const fs::path& root) {
  rank_test(ranks, [&](Communicator& world) {
    const auto saved = save_checkpoint(root, example_content(), world);
    EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  });
  return root / "step-0000009";
}

TEST(Rewrite, AnyNumberOfFilesHoldsTheSame) {
  const TempDir root;
  const auto from = Checkpoint::open(saved_on(3, root.path()));
  ASSERT_TRUE(from.ok()) << from.error().to_string();
  const auto tensors = streamed_tensors(*from);
  const auto facts = facts_of(*from);
  ASSERT_TRUE(facts.ok()) << facts.error().to_string();
  for (const std::int64_t files : {1, 2, 7}) {
    const fs::path to = root / ("moved" + std::to_string(files));
    const auto report = write_streamed(to, *facts, tensors, files);
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    EXPECT_TRUE(verify_checkpoint(to)->empty());
    const auto again = Checkpoint::open(to);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->manifest().tokens, 90);
    EXPECT_EQ(*again->text("tokenizer/vocab"), "x");
    const auto difference = diff_checkpoints(*from, *again);
    ASSERT_TRUE(difference.ok());
    EXPECT_TRUE(difference->same()) << difference->to_text();
    EXPECT_EQ(difference->equal, 5);
    std::int64_t bytes = 0, largest = 0;
    for (const PlannedFile& file : plan_streamed(tensors, files)) {
      EXPECT_EQ(fs::exists(to / file.name), true);
      bytes += file.bytes;
      largest = std::max(largest, file.bytes);
    }
    EXPECT_EQ(bytes, 2 * 2'800'000 + 22 + 8);
    EXPECT_LE(largest, 2'800'030 / files + 8);
    EXPECT_EQ(write_streamed(to, *facts, tensors, files).error().kind, ErrorKind::kInvalid);
  }
}

TEST(Rewrite, AChangedByteDoesNotTravel) {
  const TempDir root;
  const fs::path path = saved_on(2, root.path());
  {
    std::fstream file(path / "model-00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-100, std::ios::end);
    file.put('\x55');
  }
  const auto from = Checkpoint::open(path);
  ASSERT_TRUE(from.ok());
  const auto report = write_streamed(root / "moved", *facts_of(*from), streamed_tensors(*from), 1);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::kCorrupt);
  EXPECT_FALSE(fs::exists(root / "moved"));
  EXPECT_FALSE(fs::exists(root / ".tmp-moved"));
}

// Complaint 19: the export of what 8 ranks hold takes no more than twice the largest tensor beside
// the program itself; here, a quarter of it.
TEST(Rewrite, ExportOfEightRanksUnderAMemoryLimit) {
  const TempDir root;
  constexpr std::int64_t kRows = 16, kWidth = 1 << 20;  // 64 MiB
  rank_test(8, [&](Communicator& world) {
    CheckpointContent content;
    content.step = 9;
    const std::int64_t count = kRows * kWidth / 8, begin = world.coord() * count;
    content.model_parts = {{"big",
                            {kRows, kWidth},
                            Region::flat(begin, count),
                            at::full({count}, static_cast<double>(world.coord()), at::kFloat)}};
    ASSERT_TRUE(save_checkpoint(root.path(), content, world).ok());
  });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    at::set_num_threads(1);
    std::ifstream status("/proc/self/status");
    std::int64_t data_kib = 0;
    for (std::string word; status >> word;) {
      if (word == "VmData:") status >> data_kib;
    }
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max =
        static_cast<rlim_t>(data_kib) * 1024 + static_cast<rlim_t>(kRows * kWidth);
    if (data_kib == 0 || setrlimit(RLIMIT_DATA, &limit) != 0) _exit(2);
    const auto from = Checkpoint::open(root / "step-0000009");
    if (!from.ok()) _exit(3);
    const auto report =
        write_streamed(root / "whole", *facts_of(*from), streamed_tensors(*from), 1);
    _exit(report.ok() ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto whole = Checkpoint::open(root / "whole");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->manifest().tensors.at("big").chunks.size(), 1U);
  EXPECT_EQ(whole->load("big").value()[kRows - 1][kWidth - 1].item<float>(), 7.0F);
}

TEST(CheckpointDiff, NamesCountsAndPlaces) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  CheckpointContent content = example_content();
  ASSERT_TRUE(save_checkpoint(root / "a", content, solo).ok());
  content.model[0].tensor.view({-1})[300'007].fill_(0.5);
  content.model[0].tensor.view({-1})[600'000].fill_(600'000.25);
  content.model[1].tensor = at::zeros({11}, at::kFloat);
  content.model[2].name = "hollow";
  content.states["loader"] = {{"position", 10}};
  ASSERT_TRUE(save_checkpoint(root / "b", content, solo).ok());
  const auto a = Checkpoint::open(root / "a/step-0000009");
  const auto b = Checkpoint::open(root / "b/step-0000009");
  ASSERT_TRUE(a.ok() && b.ok());
  const auto difference = diff_checkpoints(*a, *b);
  ASSERT_TRUE(difference.ok());
  EXPECT_FALSE(difference->same());
  EXPECT_THAT(difference->only_a, ElementsAre("empty"));
  EXPECT_THAT(difference->only_b, ElementsAre("hollow"));
  EXPECT_THAT(difference->states, ElementsAre("loader"));
  EXPECT_EQ(difference->equal, 2);
  ASSERT_EQ(difference->tensors.size(), 2U);
  EXPECT_EQ(difference->tensors[0].name, "a");
  EXPECT_EQ(difference->tensors[0].count, 2);
  EXPECT_EQ(difference->tensors[0].first, 300'007);
  EXPECT_DOUBLE_EQ(difference->tensors[0].max_abs, 300'006.5);
  EXPECT_EQ(difference->tensors[1].form, "BF16 [11] and F32 [11]");
  EXPECT_THAT(difference->to_text(),
              HasSubstr("a: 2 elements differ, the first at 300007, by 300006 at most"));
  EXPECT_EQ(difference->to_json()["tensors"][0]["count"], 2);
}

}  // namespace
}  // namespace sx
