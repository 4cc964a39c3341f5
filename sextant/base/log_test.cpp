#include "sextant/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

#include "sextant/base/clock.h"
#include "sextant/base/fs.h"
#include "sextant/base/progress.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  std::istringstream text(*read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// What `body` writes to file descriptor 2, which is a file meanwhile: not a terminal.
template <class Body>
std::string standard_error_of(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { EXPECT_TRUE(log::configure({.level = LogLevel::kWarn}).ok()); }
  fs::path file() const { return dir_ / "rank-00000.jsonl"; }
  TempDir dir_;
};

TEST(LogLineTest, JsonFormIsFixed) {
  const std::int64_t moment = 1'796'015'523'123'456;  // 2026-11-30T05:12:03.123456Z
  EXPECT_EQ(
      log::json_line(LogLevel::kInfo, "ckpt.saved", {{"step", 120}, {"seconds", 0.1}}, 0,
                     {{"pp", 0}, {"tp", 1}}, moment, 7),
      R"({"ts":"2026-11-30T05:12:03.123456Z","mono_us":7,"level":"info","event":"ckpt.saved","rank":0,)"
      R"("coord":{"pp":0,"tp":1},"step":120,"seconds":0.1})");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      log::json_line(LogLevel::kError, "a.b",
                     {{"x", Json{std::nan(""), inf, -inf, 0.5}}, {"s", "\xff\"\n"}}, 3, nullptr, 0,
                     0),
      R"({"ts":"1970-01-01T00:00:00.000000Z","mono_us":0,"level":"error","event":"a.b","rank":3,)"
      "\"x\":[\"nan\",\"inf\",\"-inf\",0.5],\"s\":\"\xef\xbf\xbd\\\"\\n\"}");
}

TEST(LogLineTest, ConsoleForm) {
  EXPECT_EQ(log::console_line(LogLevel::kInfo, "ckpt.saved", {{"step", 120}, {"seconds", 1.23456}}),
            "ckpt.saved · step 120 · seconds 1.235");
  EXPECT_EQ(log::console_line(LogLevel::kWarn, "data.bad", {{"file", "a b"}}),
            "warn data.bad · file a b");
}

TEST(LogLineTest, LevelNames) {
  for (const char* name : {"error", "warn", "info", "debug"})
    EXPECT_STREQ(to_string(*parse_log_level(name)), name);
  EXPECT_EQ(parse_log_level("loud").error().kind, ErrorKind::kInvalid);
}

TEST_F(LogTest, WritesFileAndConsoleDownToTheLevel) {
  const std::string console = standard_error_of([&] {
    ASSERT_TRUE(log::configure({.level = LogLevel::kInfo, .jsonl_path = file()}).ok());
    SX_LOG(kInfo, "run.start", "seed", 1);
    SX_LOG(kDebug, "run.detail");
    SX_LOG(kError, "run.stop", "code", 3);
  });
  EXPECT_EQ(console, "run.start · seed 1\nerror run.stop · code 3\n");
  const auto lines = lines_of(file());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["event"], "run.start");
  EXPECT_EQ(lines[0]["seed"], 1);
  EXPECT_EQ(lines[1]["level"], "error");
  EXPECT_LE(lines[0]["mono_us"], lines[1]["mono_us"]);
}

TEST_F(LogTest, OtherRanksWriteTheFileOnly) {
  const std::string console = standard_error_of([&] {
    ASSERT_TRUE(log::configure({.level = LogLevel::kInfo, .jsonl_path = file()}).ok());
    std::thread rank([] {
      const log::RankScope scope(5, {{"tp", 1}});
      SX_LOG(kInfo, "comm.init");
    });
    rank.join();
  });
  EXPECT_EQ(console, "");
  const auto lines = lines_of(file());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["rank"], 5);
  EXPECT_EQ(lines[0]["coord"]["tp"], 1);
}

TEST_F(LogTest, ThreadsDoNotMixLinesAndReopeningAppends) {
  ASSERT_TRUE(
      log::configure({.level = LogLevel::kInfo, .console = false, .jsonl_path = file()}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i)
        SX_LOG(kInfo, "run.start", "thread", t, "text", std::string(200, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(
      log::configure({.level = LogLevel::kInfo, .console = false, .jsonl_path = file()}).ok());
  SX_LOG(kInfo, "run.resume");
  log::flush();
  EXPECT_EQ(lines_of(file()).size(), 401U);
}

TEST_F(LogTest, EveryLimitsAPlaceInTheSource) {
  ASSERT_TRUE(
      log::configure({.level = LogLevel::kInfo, .console = false, .jsonl_path = file()}).ok());
  for (int i = 0; i < 1000; ++i) SX_LOG_EVERY_S(3600, kInfo, "data.slow", "i", i);
  ASSERT_EQ(lines_of(file()).size(), 1U);
  EXPECT_EQ(lines_of(file())[0]["i"], 0);
}

TEST_F(LogTest, UnusableFileIsAnError) {
  EXPECT_EQ(log::configure({.jsonl_path = dir_ / "no/file"}).error().kind, ErrorKind::kIo);
  const std::string console = standard_error_of([&] {
    ASSERT_TRUE(
        log::configure({.level = LogLevel::kInfo, .console = false, .jsonl_path = "/dev/full"})
            .ok());
    SX_LOG(kInfo, "run.start");
    SX_LOG(kInfo, "run.stop");
  });
  EXPECT_EQ(console,
            "warn log file /dev/full: No space left on device; further lines may be missing\n");
}

TEST(ProgressTest, Lines) {
  EXPECT_EQ(progress_line({.label = "tokenize",
                           .unit = "bytes",
                           .done = 1'288'490'189,
                           .total = 2'040'109'466,
                           .seconds = 6.136}),
            "tokenize  63 %  1.20 GiB of 1.90 GiB  210 MB/s  eta 3.6 s");
  EXPECT_EQ(progress_line(
                {.label = "crawl", .unit = "pages", .done = 2000, .seconds = 4, .note = "3 bad"}),
            "crawl  2.00k pages  500 pages/s  3 bad");
  EXPECT_EQ(progress_line({.label = "pack", .unit = "documents", .total = 10}),
            "pack  0 %  0 documents of 10 documents");
  EXPECT_EQ(progress_line({.label = "pack",
                           .unit = "documents",
                           .done = 10,
                           .total = 10,
                           .seconds = 2,
                           .finished = true}),
            "pack  done  10 documents  in 2.0 s  5 documents/s");
}

TEST(ProgressTest, PlainLineAtTheEndWithoutATerminal) {
  const std::string text = standard_error_of([] {
    Progress progress("pack", "documents", 100, false);
    for (int i = 0; i < 100; ++i) progress.add(1);
    progress.note("loss 3.2");
    progress.finish();
    progress.finish();
  });
  EXPECT_THAT(text, testing::StartsWith("pack  done  100 documents  in "));
  EXPECT_THAT(text, testing::EndsWith("loss 3.2\n"));
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(ProgressTest, QuietSaysNothing) {
  EXPECT_EQ(standard_error_of([] { Progress("pack", "documents", 100, true).add(50); }), "");
}

TEST(ClockTest, Texts) {
  EXPECT_EQ(utc_timestamp(1'796'015'523'123'456), "2026-11-30T05:12:03.123456Z");
  EXPECT_EQ(utc_compact(1'796'015'523'123'456), "20261130-051203");
}

}  // namespace
}  // namespace sx
