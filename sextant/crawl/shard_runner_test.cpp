#include "sextant/crawl/shard_runner.h"

#include <gtest/gtest.h>

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sextant/base/rng.h"
#include "sextant/crawl/crawl_report.h"
#include "sextant/text/jsonl_reader.h"
#include "tests/support/test_data.h"
#include "tests/support/warc_maker.h"

namespace sx {
namespace {

constexpr const char* kHtml = "Content-Type: text/html; charset=utf-8\r\n";

std::string page(int n) {
  return WarcMaker::response(
      n, fmt::format("http://a.test/{}", n), kHtml,
      fmt::format("<html lang=en><title>T{}</title><p>Page number {}</p>", n, n));
}

/// One record of every fate, in a known order.
std::string mixed_archive(const std::function<std::string(std::string)>& pack) {
  std::string out;
  out += pack(WarcMaker::record(0, "warcinfo", "", "application/warc-fields", "software: x\r\n"));
  out += pack(WarcMaker::record(1, "request", "http://a.test/", "application/http; msgtype=request",
                                "GET / HTTP/1.1\r\n\r\n"));
  out += pack(page(2));
  out += pack(WarcMaker::response(3, "http://a.test/404", kHtml, "<p>gone", 404));
  out += pack(WarcMaker::response(4, "http://a.test/png", "Content-Type: image/png\r\n",
                                  "\x89PNG\r\n\x1a\n...."));
  out += pack(WarcMaker::response(5, "http://a.test/korean",
                                  "Content-Type: text/html; charset=iso-2022-kr\r\n", "<p>text"));
  out += pack(WarcMaker::response(6, "http://a.test/void", kHtml, "<p> <img>"));
  out += pack(WarcMaker::response(7, "http://a.test/empty", kHtml, ""));
  out += pack(WarcMaker::response(8, "http://a.test/twin", kHtml, "<p>Page number 2</p>"));
  out += pack(WarcMaker::record(9, "revisit", "http://a.test/",
                                "application/http; msgtype=response", "HTTP/1.1 200 OK\r\n\r\n"));
  out += pack(WarcMaker::response(10, "http://a.test/bin", kHtml, std::string("\0\1\2\3", 4)));
  out += pack("WARX this is damage\r\n\r\n");
  out += pack(WarcMaker::response(11, "http://a.test/plain", "Content-Type: text/plain\r\n",
                                  "plain\r\ntext "));
  out += pack(WarcMaker::response(12, "http://a.test/latin",
                                  "Content-Type: text/html; charset=latin1\r\n",
                                  "<html lang=FR-ca><p>caf\xE9"));
  out += pack(WarcMaker::response(13, "http://a.test/none", kHtml, "  "));
  return out;
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<nlohmann::json> documents_of(const fs::path& folder, const CrawlSummary& summary) {
  std::vector<nlohmann::json> out;
  for (const auto& shard : summary.shards) {
    auto reader = JsonlReader::open(folder / shard.name);
    EXPECT_TRUE(reader.ok());
    for (;;) {
      auto document = reader->next();
      EXPECT_TRUE(document.ok());
      if (!document.ok() || !document->has_value()) break;
      out.push_back(nlohmann::json::parse((*document)->line));
    }
  }
  return out;
}

std::string file_bytes(const fs::path& path) { return read_file(path).value(); }

TEST(CrawlRun, EveryFateIsCounted) {
  TempDir dir;
  write_bytes(dir / "a.warc", mixed_archive([](std::string r) { return r; }));
  write_bytes(dir / "b.warc.gz", mixed_archive([](std::string r) { return WarcMaker::gzip(r); }));
  for (const char* name : {"a.warc", "b.warc.gz"}) {
    make_dirs(dir / (std::string(name) + ".out")).value();
    const auto run = run_crawl({dir / name}, {}, dir / (std::string(name) + ".out"));
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_EQ(run->records(), 15u);
    EXPECT_EQ(run->documents(), 3u);
    const std::pair<Reason, int> want[] = {
        {Reason::kReadType, 2},      {Reason::kReadStatus, 1},
        {Reason::kReadMime, 1},      {Reason::kDecodeFailed, 1},
        {Reason::kExtractEmpty, 1},  {Reason::kPayloadEmpty, 1},
        {Reason::kDedupDocument, 1}, {Reason::kReadRevisitUnresolved, 1},
        {Reason::kDecodeBinary, 1},  {Reason::kReadDamaged, 1},
        {Reason::kHtmlEmpty, 1}};
    for (const auto& [reason, count] : want) {
      EXPECT_EQ(run->dropped(reason), static_cast<std::uint64_t>(count))
          << to_string(reason) << " " << name;
      EXPECT_EQ(run->examples[static_cast<std::size_t>(reason)].size(),
                static_cast<std::size_t>(std::min(count, 3)));
    }
    const auto documents = documents_of(dir / (std::string(name) + ".out"), *run);
    ASSERT_EQ(documents.size(), 3u);
    EXPECT_EQ(documents[0]["text"], "Page number 2");
    EXPECT_EQ(documents[0]["metadata"]["title"], "T2");
    EXPECT_EQ(documents[0]["language"], "en");
    EXPECT_EQ(documents[0]["url"], "http://a.test/2");
    EXPECT_EQ(documents[0]["id"], xxh3_128("urn:test:2").hex());
    EXPECT_EQ(documents[1]["text"], "plain\ntext");
    EXPECT_EQ(documents[1]["language"], "und");
    EXPECT_EQ(documents[2]["text"], "caf\u00E9");
    EXPECT_EQ(documents[2]["language"], "fr");
    EXPECT_EQ(documents[2]["metadata"]["charset"], "windows-1252");
    EXPECT_EQ(documents[2]["metadata"]["charset_declared"], "latin1");
    EXPECT_EQ(run->files[0].record_bytes + run->files[0].gap_bytes + run->files[0].trailing_bytes,
              fs::file_size(dir / name));
  }
}

TEST(CrawlRun, KeysOfADocumentStandInFixedOrder) {
  Document document;
  document.text = "a \"b\"\n";
  EXPECT_EQ(
      to_json_line(document, "D"),
      "{\"id\":\"00000000000000000000000000000000\",\"text\":\"a "
      "\\\"b\\\"\\n\",\"url\":\"\",\"date\":\"\",\"dump\":\"D\","
      "\"language\":\"\",\"language_score\":null,\"source\":{\"file\":\"\",\"offset\":0,\"bytes\":"
      "0},"
      "\"metadata\":{\"title\":\"\",\"html_lang\":\"\",\"charset\":\"\",\"charset_declared\":\"\","
      "\"charset_source\":\"\","
      "\"mime\":\"\",\"replaced\":0,\"http_status\":0,\"truncated\":false,\"payload_bytes\":0,"
      "\"edits\":0,\"extraction\":\"\",\"confidence\":1.000,\"pii\":{}}}");
}

TEST(CrawlRun, BytesDoNotDependOnThreads) {
  TempDir dir;
  std::vector<fs::path> inputs;
  const RandomStream random(3, "crawl.threads");
  for (int f = 0; f < 3; ++f) {
    std::string file;
    for (int n = 0; n < 700; ++n) {
      const std::uint64_t draw = random.u64(static_cast<std::uint64_t>(f * 1000 + n));
      file += WarcMaker::gzip(page(static_cast<int>(draw % 1200) + (draw % 7 == 0 ? 5000 : 0)));
      if (draw % 97 == 0) file += "damage";
    }
    inputs.push_back(dir / fmt::format("{}.warc.gz", f));
    write_bytes(inputs.back(), file);
  }
  std::string first;
  std::string first_counts;
  for (const std::size_t threads : {1u, 2u, 4u, 7u}) {
    CrawlOptions options;
    options.num_threads = threads;
    options.frame_bytes = 10000;
    options.shard_bytes = 100000;
    const fs::path out = dir / fmt::format("out{}", threads);
    make_dirs(out).value();
    const auto run = run_crawl(inputs, options, out);
    ASSERT_TRUE(run.ok());
    EXPECT_GT(run->shards.size(), 1u);
    std::string all;
    for (const auto& shard : run->shards) all += shard.name + file_bytes(out / shard.name);
    auto counts = crawl_summary_json(*run);
    for (const char* key : {"seconds", "pages_per_s", "mb_per_s"}) counts.erase(key);
    for (auto& stage : counts["stages"]) stage.erase("seconds");
    if (first.empty()) {
      first = all;
      first_counts = counts.dump() + crawl_examples_json(*run).dump();
    }
    EXPECT_TRUE(all == first) << threads;
    EXPECT_EQ(counts.dump() + crawl_examples_json(*run).dump(), first_counts) << threads;
  }
}

TEST(CrawlRun, ConservationHoldsOverDamagedArchives) {
  TempDir dir;
  const std::string sound = mixed_archive([](std::string r) { return WarcMaker::gzip(r); });
  const RandomStream random(5, "crawl.damage");
  for (std::uint64_t turn = 0; turn < 60; ++turn) {
    std::string hurt = sound;
    const std::size_t at = random.u64(2 * turn) % hurt.size();
    if (turn % 2)
      hurt[at] = static_cast<char>(random.u64(2 * turn + 1));
    else
      hurt.resize(at);
    write_bytes(dir / "x.warc.gz", hurt);
    make_dirs(dir / "out").value();
    const auto run =
        run_crawl({dir / "x.warc.gz"}, {}, dir / "out");  // the contract is checked inside
    if (run.ok())
      EXPECT_LE(run->documents(), 4u) << "seed 5 turn " << turn;
    else
      EXPECT_EQ(run.error().kind, ErrorKind::kUnsupported) << "seed 5 turn " << turn;
  }
}

TEST(CrawlRun, MissingInputsAndStopsLeaveNothing) {
  TempDir dir;
  write_bytes(dir / "a.warc", page(1));
  make_dirs(dir / "out").value();
  EXPECT_EQ(run_crawl({dir / "a.warc", dir / "absent.warc"}, {}, dir / "out").error().kind,
            ErrorKind::kNotFound);
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  const auto stopped = run_crawl({dir / "a.warc"}, {}, dir / "out", {}, [] { return true; });
  ASSERT_TRUE(stopped.ok());
  EXPECT_TRUE(stopped->stopped);
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  const auto none = run_crawl({}, {}, dir / "out");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->documents(), 0u);
  EXPECT_TRUE(fs::exists(dir / "out" / "docs-00000.jsonl.zst"));
}

TEST(CrawlRun, SelectionsAndBudgets) {
  TempDir dir;
  write_bytes(
      dir / "a.warc",
      WarcMaker::record(1, "conversion", "http://a.test/1", "text/plain", "WET text") +
          WarcMaker::record(2, "resource", "http://a.test/2", "text/html", "<p>resource</p>") +
          WarcMaker::response(3, "http://a.test/3", kHtml, "<p>not found</p>", 404) +
          WarcMaker::response(4, "http://a.test/4", kHtml,
                              "<p>" + std::string(5000, 'x') + "</p>"));
  make_dirs(dir / "out").value();
  CrawlOptions options;
  options.select_types = {"conversion", "resource", "response"};
  options.select_status = {200, 404};
  options.max_payload_bytes = 1000;
  const auto run = run_crawl({dir / "a.warc"}, options, dir / "out");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->documents(), 3u);
  EXPECT_EQ(run->dropped(Reason::kReadTooLarge), 1u);
  options.max_payload_bytes = 100000;
  options.html.max_nodes = 1;
  options.drop_over_limit = true;
  const auto strict = run_crawl({dir / "a.warc"}, options, dir / "out");
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(strict->dropped(Reason::kHtmlNodeLimit), 3u);
}

TEST(CrawlReport, PageIsMadeFromHostileText) {
  TempDir dir;
  write_bytes(dir / "a.warc",
              page(1) +
                  WarcMaker::response(2, "http://a.test/<script>alert(1)</script>", kHtml,
                                      "gone <b>", 404) +
                  WarcMaker::response(3, "http://a.test/x", kHtml,
                                      "<p>&lt;script&gt;alert(2)&lt;/script&gt;</p>") +
                  WarcMaker::response(4, "http://a.test/x", kHtml,
                                      "<p>&lt;script&gt;alert(2)&lt;/script&gt;</p>"));
  make_dirs(dir / "out").value();
  const auto run = run_crawl({dir / "a.warc"}, {}, dir / "out");
  ASSERT_TRUE(run.ok());
  PageFacts facts;
  facts.title = "Crawl";
  const std::string html =
      make_crawl_page(facts, crawl_summary_json(*run), crawl_examples_json(*run)).html();
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("dedup.document"), std::string::npos);
}

TEST(Verdict, NamesAreStable) {
  std::string names;
  for (std::size_t i = 1; i < kNumReasons; ++i)
    names += std::string(to_string(static_cast<Reason>(i))) + " ";
  EXPECT_EQ(names,
            "read.damaged read.type read.mime read.status read.too_large read.revisit_unresolved "
            "payload.chunked payload.content_encoding payload.empty decode.failed decode.binary "
            "html.node_limit html.memory_limit html.empty extract.empty extract.confidence "
            "gopher.short gopher.long gopher.mean_low gopher.mean_high gopher.hashes "
            "gopher.ellipses gopher.symbols gopher.bullets gopher.ellipsis_lines gopher.alpha "
            "gopher.stop_words rep.para rep.para_char rep.line rep.line_char rep.top2 rep.top3 "
            "rep.top4 rep.dup5 rep.dup6 rep.dup7 rep.dup8 rep.dup9 rep.dup10 c4.lorem_ipsum "
            "c4.curly c4.few_sentences c4.line_ends c4.paragraphs fineweb.empty "
            "fineweb.line_punct fineweb.short_lines fineweb.char_dup fineweb.newlines "
            "rw.edited_share rw.empty_after_edit pii.dropped dedup.document dedup.minhash ");
}

}  // namespace
}  // namespace sx
