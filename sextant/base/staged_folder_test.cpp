#include "sextant/base/staged_folder.h"

#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace sx {
namespace {

TEST(StagedFolder, AppearsWholeOrNotAtAll) {
  const TempDir dir;
  const fs::path target = dir / "out";
  {
    auto staged = StagedFolder::create(target).value();
    ASSERT_TRUE(write_file_atomic(staged.path() / "a", "1").ok());
    EXPECT_FALSE(fs::exists(target));
  }
  EXPECT_FALSE(fs::exists(target));
  EXPECT_TRUE(fs::is_empty(dir.path()));
  auto staged = StagedFolder::create(target).value();
  ASSERT_TRUE(write_file_atomic(staged.path() / "a", "2").ok());
  ASSERT_TRUE(staged.commit().ok());
  EXPECT_EQ(read_file(target / "a").value(), "2");
}

TEST(StagedFolder, WhatADeadAttemptLeftIsNotTakenAlong) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / ".tmp-out").ok());
  ASSERT_TRUE(write_file_atomic(dir / ".tmp-out" / "old", "1").ok());
  ASSERT_TRUE(make_dirs(dir / "out").ok());  // an empty one may be there
  auto staged = StagedFolder::create(dir / "out").value();
  ASSERT_TRUE(write_file_atomic(staged.path() / "new", "2").ok());
  ASSERT_TRUE(staged.commit().ok());
  EXPECT_FALSE(fs::exists(dir / "out" / "old"));
  EXPECT_TRUE(fs::exists(dir / "out" / "new"));
}

TEST(StagedFolder, TakesNobodysPlace) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "full").ok());
  ASSERT_TRUE(write_file_atomic(dir / "full" / "a", "1").ok());
  EXPECT_EQ(StagedFolder::create(dir / "full").error().kind, ErrorKind::kInvalid);
  auto first = StagedFolder::create(dir / "out").value();
  EXPECT_EQ(StagedFolder::create(dir / "out").error().kind, ErrorKind::kIo);  // at the same time
  ASSERT_TRUE(make_dirs(dir / "out").ok());
  ASSERT_TRUE(write_file_atomic(dir / "out" / "a", "1").ok());
  EXPECT_EQ(first.commit().error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(read_file(dir / "out" / "a").value(), "1");
}

}  // namespace
}  // namespace sx
