#include "sextant/trace/page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sextant/base/check.h"
#include "sextant/trace/demo_report.h"
#include "sextant/trace/page_assets.h"
#include "sextant/trace/sha256.h"
#include "sextant/trace/train_report.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

PageFacts plain_facts() {
  return {"Run", "tiny", "2026-11-30 05:12 UTC", 96.4, "2 cores", "0.1.0", "x"};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string data_block(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const auto from = html.find(open) + open.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(Page, FigureIsLookedUpInTheData) {
  Page page(plain_facts(), {{"loss", {{"held_out", 4.3125}}}, {"name", "x"}});
  page.figure({"held-out loss", "/loss/held_out", NumberKind::kFixed2, "nats", "against 6.02"});
  const std::string html = page.html();
  EXPECT_TRUE(
      has(html, "<data value=\"4.3125\" data-key=\"/loss/held_out\" title=\"4.3125\">4.31</data>"));
  EXPECT_EQ(data_block(html), R"({"loss":{"held_out":4.3125},"name":"x"})");
  EXPECT_THROW(page.figure({"x", "/missing"}), ContractError);
  EXPECT_THROW(page.figure({"x", "/name"}), ContractError);
}

TEST(Page, PolicyNamesTheHashesOfItsOwnStyleAndScript) {
  const std::string html = Page(plain_facts(), ordered_json::object()).html();
  EXPECT_TRUE(has(html, "default-src 'none'; style-src '" + csp_hash(page_style()) +
                            "'; script-src '" + csp_hash(page_script()) + "'"));
  EXPECT_TRUE(has(html, "<style>" + std::string(page_style()) + "</style>"));
  EXPECT_TRUE(has(html, "<script>" + std::string(page_script()) + "</script>"));
  EXPECT_LE(page_script().size(), 20'000u);
  const std::string body =
      html.substr(html.find("<body>"), html.find("<script>") - html.find("<body>"));
  EXPECT_FALSE(has(body, "http") || has(body, " src="));
}

TEST(Page, EverythingIsEscaped) {
  const std::string evil = "</script></style></title><img src=x onerror=alert(1)>\"'&";
  PageFacts facts = {evil, evil, evil, 1, evil, evil, evil};
  Page page(facts, {{"n", 1}, {evil, evil}});
  page.figure({evil, "/n", NumberKind::kPlain, evil, evil});
  page.warn({evil, evil, evil});
  Funnel funnel{evil, evil, evil, 2, {{evil, 1, {{evil, 1, {evil}}}}}};
  LineChart line;
  line.title = line.how_to_read = line.x.label = line.y.label = evil;
  line.series = {{evil, {{1, 1}, {2, 2}}}};
  line.rules = {{evil, 1.5}};
  page.section(evil).add(funnel).add(line).text(evil).add(PageQuote{evil, evil});
  page.section(evil).add(PageTable{evil, {{evil}}, {{evil}}, {evil}});
  page.setting(evil, evil);
  page.file("a<b.txt", evil);
  page.term(evil, evil);
  page.limit(evil);
  const std::string html = page.html();
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "onerror=alert(1)>\"'"));
  EXPECT_TRUE(has(data_block(html), "\\u003c/script>\\u003c/style>"));
  EXPECT_EQ(ordered_json::parse(data_block(html))[evil], evil);
}

TEST(Page, LinksStayInTheFolder) {
  Page page(plain_facts(), ordered_json::object());
  for (const char* path : {"", "/etc/passwd", "javascript:alert(1)", "http://x", "\\\\host\\x"}) {
    EXPECT_THROW(page.file(path, "x"), ContractError) << path;
    EXPECT_THROW(TableCell::link("x", path), ContractError) << path;
  }
}

TEST(Page, NumbersOfAColumnAreAlignedAndExact) {
  Page page(plain_facts(), ordered_json::object());
  PageTable table{"t", {{"name"}, {"value", true}}, {}, {}};
  table.rows = {{"a", {1.25, NumberKind::kPlain}}, {"b", {100, NumberKind::kPlain}}};
  page.section("s").add(table);
  const std::string html = page.html();
  EXPECT_TRUE(has(html, "<td class=\"n\" data-v=\"1.25\" title=\"1.25\">1.25</td>"));
  EXPECT_TRUE(has(html, ">100\u2008\u2007\u2007</td>"));
  EXPECT_FALSE(has(html, "<details>"));
  table.rows.resize(1);
  table.rows[0].resize(1, "x");
  page.section("s").add(table);
  EXPECT_THROW(page.html(), ContractError);
}

TEST(Page, LongTablesFoldAndTooLongPagesAreRefused) {
  TempDir folder;
  Page page(plain_facts(), ordered_json::object());
  PageTable table{"rows", {{"x"}}, {}, {}};
  for (int i = 0; i < 21; ++i) table.rows.push_back({"x"});
  page.section("s").add(table);
  EXPECT_TRUE(has(page.html(), "<details><summary>rows (21 rows)</summary>"));
  ASSERT_TRUE(page.write(folder / "a.html").ok());
  for (int i = 0; i < 60'000; ++i) table.rows.push_back({"a row of some length"});
  page.section("s").add(table);
  const auto refused = page.write(folder / "b.html");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
  EXPECT_FALSE(fs::exists(folder / "b.html"));
}

TrainReport long_report(std::int64_t steps) {
  TrainReport report;
  report.facts = plain_facts();
  report.unigram_entropy = 6.02;
  report.metrics.rows.reserve(static_cast<std::size_t>(steps));
  for (std::int64_t step = 1; step <= steps; ++step) {
    MetricsRow row(step);
    row.set_count("tokens", step * 4096);
    row.set("loss", 3 + 6 / (1 + 0.001 * static_cast<double>(step)) +
                        0.001 * static_cast<double>(step % 97));
    row.set("lr", 3e-4);
    row.set("grad_norm", 1 + 0.01 * static_cast<double>(step % 31));
    if (step % 10'000 == 0) row.set("eval_loss", 3.5);
    report.metrics.rows.push_back(std::move(row));
  }
  return report;
}

TEST(TrainReport, AMillionStepsFitInOneMegabyte) {
  TempDir folder;
  const Page page = make_train_page(long_report(1'000'000));
  ASSERT_TRUE(page.write(folder / "report.html").ok());
  EXPECT_LT(fs::file_size(folder / "report.html"), 1'000'000u);
  const auto html = read_file(folder / "report.html");
  ASSERT_TRUE(html.ok());
  EXPECT_TRUE(has(*html, "1\u2009000\u2009000 points are drawn in 400 parts"));
}

TEST(TrainReport, SummaryAndWarnings) {
  TrainReport report = long_report(3);
  report.metrics.rows[1].set("loss", std::nan(""));
  report.metrics.rows[2].set("eval_loss", 6.5);
  report.metrics.rows[2].set("tokens_per_s", 100.0);
  report.metrics.torn = true;
  report.num_params = 77;
  report.extra = {{"repeated_steps", 4}};
  StepTrace trace;
  trace.duration_us = 1e6;  // nothing explains it
  report.ranks = {{trace}};
  const ordered_json data = train_summary(report);
  EXPECT_EQ(data["steps"], 3);
  EXPECT_EQ(data["tokens"], 3 * 4096);
  EXPECT_EQ(data["held_out_loss"], 6.5);
  EXPECT_EQ(data["held_out_ppl"], std::exp(6.5));
  EXPECT_EQ(data["nonfinite_steps"], 1);
  EXPECT_EQ(data["params"], 77);
  EXPECT_EQ(data["repeated_steps"], 4);
  const std::string html = make_train_page(report).html();
  EXPECT_TRUE(has(html, "1 logged step had a loss that is not finite"));
  EXPECT_TRUE(has(html, "The model is no better than counting tokens"));
  EXPECT_TRUE(has(html, "The phases of 1 steps do not add up"));
  EXPECT_TRUE(has(html, "is torn"));
  EXPECT_EQ(ordered_json::parse(data_block(html)), data);
}

TEST(TrainReport, ARunThatLoggedNothing) {
  const std::string html = make_train_page(TrainReport{}).html();
  EXPECT_TRUE(has(html, "no data"));
}

TEST(DemoReport, TellsWhenRecordsAreMissingFromTheAccount) {
  ordered_json summary = {
      {"records", 10}, {"pages", 8}, {"documents", 7}, {"dropped", {{"short", 3}}}};
  EXPECT_TRUE(has(make_demo_page(plain_facts(), summary, {}).html(), "7 of 10 records kept"));
  summary["dropped"]["short"] = 2;
  const std::string html =
      make_demo_page(plain_facts(), summary, {{"crawl/report.html", "x"}}).html();
  EXPECT_TRUE(has(html, "records are missing from the account"));
  EXPECT_TRUE(has(html, "href=\"crawl/report.html\""));
  EXPECT_EQ(ordered_json::parse(data_block(html)), summary);
}

TEST(DemoReport, ReadsOddSummaries) {
  for (const char* text :
       {"{}", R"({"pages":"many","stages":[1,{"name":2}],"languages":[],"dropped":7})",
        R"({"stages":[{"name":"a","seconds":-1}],"held_out_loss":"nan"})",
        R"({"stage_seconds":{"crawl":1.5},"documents":3})"}) {
    EXPECT_TRUE(has(make_demo_page(plain_facts(), ordered_json::parse(text), {}).html(), "</html>"))
        << text;
  }
}

}  // namespace
}  // namespace sx
