#include "sextant/base/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sextant/base/version.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Existing = RunFolder::Existing;
using Json = nlohmann::ordered_json;

TEST(RunFolderTest, NewFolderWithLog) {
  const TempDir dir;
  const RunFolder run = *RunFolder::open(dir / "runs/a", Existing::kRefuse);
  EXPECT_TRUE(fs::is_directory(run.path() / "log"));
  EXPECT_EQ(run.file("metrics.jsonl"), dir / "runs/a/metrics.jsonl");
}

TEST(RunFolderTest, ExistingFolderIsRefusedResumedOrOverwritten) {
  const TempDir dir;
  ASSERT_TRUE(RunFolder::open(dir / "a", Existing::kRefuse)->write_run_json({{"seed", 1}}).ok());
  std::ofstream(dir / "a/metrics.jsonl") << "{}\n";
  EXPECT_EQ(RunFolder::open(dir / "a", Existing::kRefuse).error().kind, ErrorKind::kInvalid);
  ASSERT_TRUE(RunFolder::open(dir / "a", Existing::kResume).ok());
  EXPECT_TRUE(fs::exists(dir / "a/metrics.jsonl"));
  ASSERT_TRUE(RunFolder::open(dir / "a", Existing::kOverwrite).ok());
  EXPECT_FALSE(fs::exists(dir / "a/metrics.jsonl"));
}

TEST(RunFolderTest, OverwriteSparesWhatIsNoRunFolder) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "home").ok());
  std::ofstream(dir / "home/thesis.tex") << "x";
  EXPECT_EQ(RunFolder::open(dir / "home", Existing::kOverwrite).error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(fs::exists(dir / "home/thesis.tex"));
  EXPECT_EQ(RunFolder::open(dir / "home/thesis.tex", Existing::kOverwrite).error().kind,
            ErrorKind::kInvalid);
}

TEST(RunFolderTest, RunJsonKeepsIdentityOverResumes) {
  const TempDir dir;
  const RunFolder run = *RunFolder::open(dir / "a", Existing::kRefuse);
  ASSERT_TRUE(run.write_run_json({{"world", 2}}).ok());
  const Json first = Json::parse(*read_file(run.file("run.json")));
  EXPECT_EQ(first["version"], version().version);
  EXPECT_EQ(first["git_commit"], version().git_commit);
  EXPECT_EQ(first["world"], 2);
  EXPECT_EQ(first["id"].get<std::string>().size(), 16U);
  EXPECT_TRUE(first["environment"].is_object());
  ASSERT_TRUE(run.write_run_json({{"world", 4}}).ok());
  const Json second = Json::parse(*read_file(run.file("run.json")));
  EXPECT_EQ(second["id"], first["id"]);
  EXPECT_EQ(second["start"], first["start"]);
  EXPECT_EQ(second["starts"].size(), 2U);
  EXPECT_EQ(second["world"], 4);
}

TEST(RunFolderTest, StopFile) {
  const TempDir dir;
  const RunFolder run = *RunFolder::open(dir / "a", Existing::kRefuse);
  EXPECT_FALSE(run.stop_requested());
  std::ofstream(run.file("STOP")) << "";
  EXPECT_TRUE(run.stop_requested());
}

TEST(RunFolderTest, DefaultOut) {
  EXPECT_THAT(default_out("train", "tiny"),
              testing::MatchesRegex("runs/train-tiny-[0-9]{8}-[0-9]{6}"));
}

TEST(VersionTest, HasAllParts) {
  EXPECT_THAT(version().version, testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
  EXPECT_THAT(version().git_commit, testing::MatchesRegex("unknown|[0-9a-f]{12,40}(-dirty)?"));
  EXPECT_FALSE(version().compiler.empty());
  EXPECT_FALSE(version().build_type.empty());
}

}  // namespace
}  // namespace sx
