#include "sextant/crawl/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sextant/base/rng.h"
#include "sextant/crawl/attribute_lines.h"
#include "sextant/text/jsonl_reader.h"
#include "tests/support/test_data.h"
#include "tests/support/warc_maker.h"

namespace sx {
namespace {

const char* const kSentences[] = {
    "The weather of the town was fine, and people went out to see the river.",
    "Nobody knew what to do with the letters that had come from abroad.",
    "Write to someone@example.com, or call (212) 555-0143, for a copy of it.",
    "This line has no end mark and is rather long for a line like that",
    "Short line",
    "It is said that you have to be there with the others at noon, or never.",
    "• a bullet line with a few words that stand behind it",
    "The same sentence is repeated in many of the pages that are made here."};

/// A page of 20 to 40 sentences drawn by number; some pages are near copies of others.
std::string made_page(std::uint64_t n) {
  const RandomStream random(9, "test.replay", n % 5 == 4 ? n - 4 : n);
  std::string html = "<html lang=en><title>T</title>";
  const std::uint64_t count = 20 + random.u64(0) % 20;
  for (std::uint64_t i = 0; i < count; ++i) {
    html += "<p>";
    html += kSentences[random.u64(2 * i + 1) % std::size(kSentences)];
    html += " Number " + std::to_string(random.u64(2 * i + 2) % 1000) + ".</p>";
  }
  if (n % 5 == 4) html += "<p>One more line.</p>";
  return html;
}

fs::path write_archive(const TempDir& dir) {
  const fs::path path = dir / "pages.warc";
  std::ofstream out(path, std::ios::binary);
  for (int n = 0; n < 40; ++n)
    out << WarcMaker::response(n, "http://a.test/" + std::to_string(n),
                               "Content-Type: text/html; charset=utf-8\r\n",
                               made_page(static_cast<std::uint64_t>(n)));
  return path;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> out;
  auto reader = LineReader::open(path);
  EXPECT_TRUE(reader.ok()) << path;
  for (;;) {
    const auto line = reader->next();
    if (!line.ok() || !line->has_value()) return out;
    out.emplace_back(**line);
  }
}

CrawlOptions options_for(const std::vector<std::string>& policy, bool near, Annotate annotate) {
  CrawlOptions options;
  options.policy = parse_policy(policy).value();
  options.drop_near_duplicates = near;
  options.annotate = annotate;
  options.pii.mode = PiiMode::kMask;
  return options;
}

TEST(CrawlReplay, GivesTheBytesOfADirectRun) {
  TempDir dir;
  const fs::path archive = write_archive(dir);
  for (const Annotate stored : {Annotate::kOff, Annotate::kAll}) {
    CrawlOptions raw = options_for({"none"}, false, stored);
    raw.pii.mode = PiiMode::kOff;
    raw.drop_duplicates = false;
    const fs::path base = dir / (stored == Annotate::kOff ? "plain" : "annotated");
    make_dirs(base).value();
    ASSERT_TRUE(run_crawl({archive}, raw, base).ok());
    EXPECT_EQ(fs::exists(base / "attributes"), stored == Annotate::kAll);
    std::size_t number = 0;
    for (const std::vector<std::string>& policy :
         {std::vector<std::string>{"none"},
          {"fineweb"},
          {"c4"},
          {"dolma"},
          {"sextant"},
          {"gopher.quality:dolma{min_words=300}", "c4:datatrove", "fineweb:datatrove"}}) {
      for (const bool near : {false, true}) {
        const CrawlOptions options = options_for(policy, near, Annotate::kPolicy);
        const fs::path direct = base / ("direct" + std::to_string(number));
        const fs::path replayed = base / ("replay" + std::to_string(number++));
        make_dirs(direct).value();
        make_dirs(replayed).value();
        const auto a = run_crawl({archive}, options, direct);
        const auto b = run_replay(base, options, replayed);
        ASSERT_TRUE(a.ok() && b.ok());
        EXPECT_EQ(lines_of(direct / "docs-00000.jsonl.zst"),
                  lines_of(replayed / "docs-00000.jsonl.zst"))
            << policy[0];
        EXPECT_EQ(a->documents(), b->documents());
        if (policy[0] != "none" && a->documents() > 0) {
          EXPECT_EQ(lines_of(direct / "attributes/docs-00000.jsonl.zst"),
                    lines_of(replayed / "attributes/docs-00000.jsonl.zst"))
              << policy[0];
        }
      }
    }
  }
}

TEST(CrawlReplay, NearCopiesGoAndAreCounted) {
  TempDir dir;
  const fs::path archive = write_archive(dir);
  std::vector<std::string> first;
  for (const std::size_t threads : {1u, 2u, 7u}) {
    CrawlOptions options = options_for({"none"}, true, Annotate::kPolicy);
    options.num_threads = threads;
    const fs::path out = dir / ("out" + std::to_string(threads));
    make_dirs(out).value();
    const auto run = run_crawl({archive}, options, out);
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->dropped(Reason::kDedupMinhash), 8u);
    EXPECT_EQ(run->near.clusters, 8u);
    EXPECT_FALSE(fs::exists(out / "waiting.jsonl.zst"));
    const auto lines = lines_of(out / "docs-00000.jsonl.zst");
    if (first.empty()) first = lines;
    EXPECT_EQ(lines, first);
  }
}

TEST(CrawlReplay, PersonalDataIsMaskedAndCounted) {
  TempDir dir;
  const fs::path archive = write_archive(dir);
  make_dirs(dir / "out").value();
  ASSERT_TRUE(run_crawl({archive}, options_for({"none"}, false, Annotate::kOff), dir / "out").ok());
  std::uint64_t emails = 0;
  for (const std::string& line : lines_of(dir / "out/docs-00000.jsonl.zst")) {
    EXPECT_EQ(line.find("someone@example"), std::string::npos);
    emails += nlohmann::json::parse(line)["metadata"]["pii"].value("email", std::uint64_t{0});
  }
  EXPECT_GT(emails, 50u);
  CrawlOptions drop = options_for({"none"}, false, Annotate::kOff);
  drop.pii.mode = PiiMode::kDrop;
  make_dirs(dir / "dropped").value();
  const auto run = run_crawl({archive}, drop, dir / "dropped");
  EXPECT_GT(run->dropped(Reason::kPiiDropped), 20u);
}

TEST(AttributeLines, AreReadAsWritten) {
  PolicyText page{"Some words. Of a page!", "en"};
  PolicyTrail trail;
  measure_all(page, trail);
  const Hash128 id = xxh3_128("x");
  const std::string line = to_attribute_line(id, trail, page.text);
  EXPECT_NE(line.find("\"gopher_quality_dolma__words\":[[0,22,5]]"), std::string::npos) << line;
  const auto read = parse_attribute_line(line, id.hex());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->entries.size(), trail.entries.size());
  EXPECT_FALSE(parse_attribute_line(line, "other").ok());
  EXPECT_FALSE(parse_attribute_line("{}", "x").ok());
  EXPECT_FALSE(
      parse_attribute_line("{\"id\":\"x\",\"attributes\":{\"c4_dolma__lines\":[[0,1]]}}", "x")
          .ok());
}

TEST(CrawlReplay, ForeignFoldersAreRefused) {
  TempDir dir;
  make_dirs(dir / "out").value();
  EXPECT_EQ(run_replay(dir.path(), {}, dir / "out").error().kind, ErrorKind::kNotFound);
  auto writer = JsonlWriter::create(dir / "docs-00000.jsonl.zst");
  writer->write_line("{\"text\":\"x\"}").value();
  writer->commit().value();
  EXPECT_EQ(run_replay(dir.path(), {}, dir / "out").error().kind, ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace sx
