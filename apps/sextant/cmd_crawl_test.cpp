// sextant crawl as a user meets it: streams, files, exit codes.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "tests/support/run_shell.h"
#include "tests/support/test_data.h"
#include "tests/support/warc_maker.h"

namespace sx {
namespace {

class CrawlCommand : public testing::Test {
 protected:
  /// Runs `sextant LINE` by the shell in the test's folder, after the shell commands in `before`.
  ShellOutcome run(const std::string& line, const std::string& before = "") {
    return run_shell(before + " '" SX_PROGRAM "' " + line, folder_.path());
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string page(int n) {
    return WarcMaker::response(
        n, "http://a.test/" + std::to_string(n), "Content-Type: text/html; charset=utf-8\r\n",
        "<html lang=en><title>T</title><p>Page " + std::to_string(n) + "</p>");
  }
  TempDir folder_;
};

TEST_F(CrawlCommand, RunLeavesDocumentsSummaryAndReport) {
  write("a.warc.gz", WarcMaker::gzip(page(1)) + WarcMaker::gzip(page(2)));
  write("b.warc", page(3) + page(1));
  const ShellOutcome outcome = run("crawl *.warc.gz b.warc --out run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("4 records, 4 pages, 3 documents"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("dedup.document"), std::string::npos);
  EXPECT_NE(outcome.out.find("report: run/report.html"), std::string::npos);
  const auto summary = nlohmann::json::parse(read_file(folder_ / "run/summary.json").value());
  EXPECT_EQ(summary["records"], 4);
  EXPECT_EQ(summary["documents"], 3);
  EXPECT_EQ(summary["dropped"]["dedup.document"], 1);
  EXPECT_EQ(summary["languages"]["en"], 3);
  EXPECT_EQ(summary["conservation"], "holds");
  for (const char* name : {"docs-00000.jsonl.zst", "report.html", "run.json",
                           "recipe.resolved.toml", "examples.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / name)) << name;
  }

  EXPECT_EQ(run("crawl verify run").code, 0);
  fs::remove(folder_ / "run/report.html");
  EXPECT_EQ(run("crawl report run").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "run/report.html"));
  const ShellOutcome again = run("crawl b.warc --out run");
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("SX2-006"), std::string::npos);
  const ShellOutcome over = run("crawl b.warc --out run --overwrite --json");
  EXPECT_EQ(over.code, 0);
  EXPECT_EQ(nlohmann::json::parse(over.out)["documents"], 2);

  const std::string docs = read_file(folder_ / "run/docs-00000.jsonl.zst").value();
  write("run/docs-00000.jsonl.zst", docs.substr(0, docs.size() / 2));
  EXPECT_EQ(run("crawl verify run").code, 5);
}

TEST_F(CrawlCommand, InspectAndTrace) {
  write("a.warc", page(1) + WarcMaker::response(2, "http://a.test/2", "Content-Type: image/png\r\n",
                                                "\x89PNG\r\n\x1a\n"));
  const ShellOutcome list = run("crawl inspect a.warc");
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("http://a.test/2"), std::string::npos);
  EXPECT_NE(list.out.find("2 records, 0 damaged places"), std::string::npos);
  EXPECT_EQ(run("crawl inspect a.warc --record 0 --stage text").out, "Page 1\n");
  EXPECT_NE(run("crawl inspect a.warc --record 0").out.find("WARC-Record-ID: <urn:test:1>"),
            std::string::npos);
  EXPECT_NE(run("crawl inspect a.warc --record 0 --stage dom").out.find("<p>"), std::string::npos);
  EXPECT_NE(run("crawl inspect a.warc --record 0 --stage raw").out.find("HTTP/1.1 200"),
            std::string::npos);
  EXPECT_EQ(run("crawl inspect a.warc --record 1 --stage text").out,
            "dropped: read.mime image/png\n");
  EXPECT_EQ(run("crawl inspect a.warc --record 9").code, 2);
  const ShellOutcome trace = run("crawl a.warc --trace-doc urn:test:1");
  EXPECT_EQ(trace.code, 0) << trace.err;
  EXPECT_NE(trace.out.find("step extract  kept"), std::string::npos) << trace.out;
  EXPECT_EQ(run("crawl a.warc --trace-doc nonsense").code, 2);
}

TEST_F(CrawlCommand, FaultsHaveTheirExitCodes) {
  EXPECT_EQ(run("crawl --out run").code, 2);
  const ShellOutcome missing = run("crawl absent.warc --out run");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("absent.warc"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "run/summary.json"));
  write("x.arc", "filedesc://x 0.0.0.0 20200101000000 text/plain 0\n");
  const ShellOutcome arc = run("crawl x.arc --out run");
  EXPECT_EQ(arc.code, 2);
  EXPECT_NE(arc.err.find("ARC"), std::string::npos);

  std::string cut = WarcMaker::gzip(page(1)) + WarcMaker::gzip(page(2));
  cut.resize(cut.size() - 20);
  write("cut.warc.gz", cut);
  const ShellOutcome damaged = run("crawl cut.warc.gz --out bad");
  EXPECT_TRUE(damaged.code == 0 || damaged.code == 6) << damaged.err;
  write("noise.warc", page(1) + "this is no record\r\n\r\n" + page(2));
  const ShellOutcome noisy = run("crawl noise.warc --out noisy");
  EXPECT_EQ(noisy.code, 6);
  EXPECT_NE(noisy.err.find("SX6-001"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "noisy/docs-00000.jsonl.zst"));
  EXPECT_EQ(run("crawl noise.warc --out allowed --crawl.max_bad_share=0.5").code, 0);
}

TEST_F(CrawlCommand, AFullDiskIsToldAndLeavesNoHalfFile) {
  std::string big;
  for (int n = 0; n < 3000; ++n) big += page(n * 7919);
  write("big.warc", big);
  const ShellOutcome full =
      run("crawl big.warc --out run --crawl.output.zstd_level=1", "trap '' XFSZ; ulimit -f 20;");
  EXPECT_EQ(full.code, 3) << full.err;
  EXPECT_NE(full.err.find("SX3-001"), std::string::npos) << full.err;
  EXPECT_FALSE(fs::exists(folder_ / "run/docs-00000.jsonl.zst"));
  for (const auto& entry : fs::directory_iterator(folder_ / "run")) {
    EXPECT_EQ(entry.path().filename().string().find("docs"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace sx
