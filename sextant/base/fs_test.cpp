#include "sextant/base/fs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "sextant/base/diagnostic.h"
#include "sextant/base/mmap.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::size_t num_entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ReadFileTest, ReadsWholeFilesWithinTheLimit) {
  const TempDir dir;
  const std::string text(10'000, 'x');
  ASSERT_TRUE(write_file_atomic(dir / "a", text).ok());
  EXPECT_EQ(*read_file(dir / "a"), text);
  EXPECT_EQ(*read_file(dir / "a", 10'000), text);
  EXPECT_EQ(read_file(dir / "a", 9'999).error().kind, ErrorKind::kLimit);
  EXPECT_EQ(read_file(dir / "b").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(read_file(dir.path()).error().kind, ErrorKind::kIo);
  ASSERT_TRUE(write_file_atomic(dir / "empty", "").ok());
  EXPECT_EQ(*read_file(dir / "empty"), "");
  EXPECT_GT(read_file("/proc/self/status")->size(), 0U);  // a file whose size says 0
}

TEST(MappedFileTest, MapsAndMoves) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "a", "hello").ok());
  MappedFile file = *MappedFile::open(dir / "a");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "hello");
  EXPECT_EQ(moved.bytes().size(), 5U);
  ASSERT_TRUE(write_file_atomic(dir / "empty", "").ok());
  EXPECT_EQ(MappedFile::open(dir / "empty")->size(), 0U);
  EXPECT_EQ(MappedFile::open(dir / "none").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(MappedFile::open(dir.path()).error().kind, ErrorKind::kIo);
}

TEST(FileWriterTest, AppearsOnlyAtCommit) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "a", "old").ok());
  {
    FileWriter writer = *FileWriter::create(dir / "a");
    ASSERT_TRUE(writer.write("new").ok());
    ASSERT_TRUE(writer.sync().ok());
    EXPECT_EQ(*read_file(dir / "a"), "old");
    EXPECT_EQ(writer.bytes(), 3U);
    FileWriter moved = std::move(writer);
    ASSERT_TRUE(moved.commit().ok());
  }
  EXPECT_EQ(*read_file(dir / "a"), "new");
  { ASSERT_TRUE(FileWriter::create(dir / "a")->write("never").ok()); }
  EXPECT_EQ(*read_file(dir / "a"), "new");
  EXPECT_EQ(num_entries(dir.path()), 1U);
}

TEST(FileWriterTest, WritesSmallAndLargePiecesInOrder) {
  const TempDir dir;
  std::string expected;
  FileWriter writer = *FileWriter::create(dir / "a");
  for (int i = 0; i < 60; ++i) {
    const std::string piece(static_cast<std::size_t>(i * i * i), static_cast<char>('a' + i % 26));
    expected += piece;
    ASSERT_TRUE(writer.write(piece).ok());
  }
  EXPECT_EQ(writer.bytes(), expected.size());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(*read_file(dir / "a"), expected);
}

TEST(FileWriterTest, ReusesTheLeftoverOfAKilledWriterAndRefusesALivingOne) {
  const TempDir dir;
  std::ofstream(dir / "a.tmp") << "torn leftover, longer than the new text";
  FileWriter writer = *FileWriter::create(dir / "a");
  const auto second = FileWriter::create(dir / "a");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kIo);
  ASSERT_TRUE(writer.write("new").ok());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(*read_file(dir / "a"), "new");
  EXPECT_TRUE(FileWriter::create(dir / "a").ok());
}

TEST(FileWriterTest, ResumeCutsAndAppends) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "a", "12345torn").ok());
  FileWriter writer = *FileWriter::resume(dir / "a", 5);
  EXPECT_EQ(writer.bytes(), 5U);
  ASSERT_TRUE(writer.write("67").ok());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(*read_file(dir / "a"), "1234567");
  EXPECT_EQ(FileWriter::resume(dir / "a", 8).error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(FileWriter::resume(dir / "b", 0).error().kind, ErrorKind::kNotFound);
  { ASSERT_TRUE(FileWriter::resume(dir / "a", 2)->write("x").ok()); }
  EXPECT_TRUE(fs::exists(dir / "a"));  // a resumed file is no temporary one
}

TEST(FileWriterTest, MissingFolderIsAnIoError) {
  const TempDir dir;
  EXPECT_EQ(FileWriter::create(dir / "no/a").error().kind, ErrorKind::kIo);
  EXPECT_EQ(write_file_atomic(dir / "no/a", "x").error().kind, ErrorKind::kIo);
}

/// What a writer does on a disk that takes 100 KiB: 0 if all is as promised, else the number of the
/// broken promise.
int write_beyond_the_limit(const fs::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100 << 10, 100 << 10};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  {
    FileWriter writer = *FileWriter::create(path);
    Result<void> status;
    for (int i = 0; i < 1000 && status.ok(); ++i) status = writer.write(std::string(1000, 'x'));
    if (status.ok() || status.error().kind != ErrorKind::kIo) return 2;
    if (to_diagnostic(status.error()).code() != "SX3-001") return 3;
    if (writer.write("x").ok() || writer.sync().ok() || writer.commit().ok()) return 4;
  }
  if (fs::exists(path.string() + ".tmp")) return 5;
  if (*read_file(path) != "old") return 6;
  if (write_file_atomic(path, std::string(200 << 10, 'y')).ok()) return 7;
  return *read_file(path) == "old" ? 0 : 8;
}

TEST(FileWriterTest, FullDiskIsReportedAndLeavesTheOldFile) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "a", "old").ok());
  const pid_t child = fork();
  if (child == 0) _exit(write_beyond_the_limit(dir / "a"));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(WriteFileAtomicTest, ReadersNeverSeeAPart) {
  const TempDir dir;
  const std::string texts[] = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  ASSERT_TRUE(write_file_atomic(dir / "f", texts[0]).ok());
  std::atomic<bool> stop{false};
  const auto write_until_stopped = [&](int which) {
    while (!stop) EXPECT_TRUE(write_file_atomic(dir / "f", texts[which]).ok());
  };
  std::thread first(write_until_stopped, 0);
  std::thread second(write_until_stopped, 1);
  for (int i = 0; i < 100; ++i) {
    const std::string seen = *read_file(dir / "f");
    EXPECT_TRUE(seen == texts[0] || seen == texts[1]) << seen.size();
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(num_entries(dir.path()), 1U);
}

class GlobTest : public testing::Test {
 protected:
  GlobTest() {
    for (const char* name : {"b.warc", "a.warc", "B.warc", "c.txt", "x[1].warc"}) {
      std::ofstream(dir_ / name) << name;
    }
    EXPECT_TRUE(make_dirs(dir_ / "s1/deep").ok());
    EXPECT_TRUE(make_dirs(dir_ / "s2/deep").ok());
    std::ofstream(dir_ / "s1/deep/d.warc") << "d";
    std::ofstream(dir_ / "s2/deep/e.warc") << "e";
  }
  std::string in(const std::string& name) const { return (dir_ / name).string(); }
  std::vector<std::string> names(const Result<std::vector<fs::path>>& paths) const {
    std::vector<std::string> out;
    for (const fs::path& path : paths.value())
      out.push_back(path.lexically_relative(dir_.path()).string());
    return out;
  }
  TempDir dir_;
};
using Names = std::vector<std::string>;

TEST_F(GlobTest, PatternsInAnyComponentSorted) {
  EXPECT_EQ(names(glob_files(in("*.warc"))), (Names{"B.warc", "a.warc", "b.warc", "x[1].warc"}));
  EXPECT_EQ(names(glob_files(in("[ac].*"))), (Names{"a.warc", "c.txt"}));
  EXPECT_EQ(names(glob_files(in("s?/*/?.warc"))), (Names{"s1/deep/d.warc", "s2/deep/e.warc"}));
  EXPECT_EQ(names(glob_files(in("x[1].warc"))), (Names{"x[1].warc"}));
  EXPECT_EQ(glob_files(in("*.none")).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(glob_files(in("none")).error().kind, ErrorKind::kNotFound);
}

TEST_F(GlobTest, InputsMayBeListsAndStandardInput) {
  std::ofstream(dir_ / "list") << in("c.txt") << "\n\n" << in("s*/deep/*") << "\r\n";
  const auto paths = expand_inputs({in("a.warc"), "@" + in("list"), in("s1")});
  EXPECT_EQ(names(paths), (Names{"a.warc", "c.txt", "s1/deep/d.warc", "s2/deep/e.warc", "s1"}));
  EXPECT_EQ(expand_inputs({"-"}).value(), std::vector<fs::path>{"-"});
  std::ofstream(dir_ / "bad") << in("c.txt") << "\n" << in("none");
  const auto missing = expand_inputs({"@" + in("bad")});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().where, in("bad") + ":2");
  EXPECT_EQ(expand_inputs({"@" + in("no-list")}).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace sx
