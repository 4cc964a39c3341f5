#include "sextant/trace/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "sextant/base/check.h"
#include "sextant/trace/step_line.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

void append_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(Metrics, RowIsWrittenInTheTablesOrder) {
  MetricsRow row(120);
  row.set("step_s", 0.512).set("loss", 3.214).set_count("tokens", 491520).set("lr", 3e-4);
  row.set("grad_norm", std::nan(""));
  row.set_object("comm",
                 {{"dp_replicate", {{"all_reduce", {{"seconds", 0.01}, {"bytes", 1024}}}}}});
  EXPECT_EQ(
      row.to_line(),
      R"({"step":120,"tokens":491520,"loss":3.214,"lr":3e-04,"grad_norm":"nan","step_s":0.512,)"
      R"("comm":{"dp_replicate":{"all_reduce":{"seconds":0.01,"bytes":1024}}}})");
  EXPECT_THROW(row.set("los", 1), ContractError);
  EXPECT_THROW(row.set("comm", 1), ContractError);
  EXPECT_THROW(row.set("step", 1), ContractError);
}

TEST(Metrics, FileOfARunThatWasKilledAndResumed) {
  TempDir folder;
  const fs::path path = folder / "metrics.jsonl";
  {
    auto writer = MetricsWriter::create(path);
    ASSERT_TRUE(writer.ok());
    for (int step = 1; step <= 4; ++step) {
      ASSERT_TRUE(writer->write(MetricsRow(step).set("loss", 10.0 - step)).ok());
    }
  }
  append_text(path, "{\"step\":5,\"loss\":4");  // killed while it wrote
  auto torn = read_metrics(path);
  ASSERT_TRUE(torn.ok()) << torn.error().to_string();
  EXPECT_TRUE(torn->torn);
  EXPECT_EQ(torn->rows.size(), 4u);
  {
    auto writer = MetricsWriter::resume(path, 3);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(MetricsRow(4).set("loss", 6.5).set("eval_loss", 6.7)).ok());
  }
  const auto text = read_file(path);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->substr(text->find('\n') + 1),
            "{\"step\":1,\"loss\":9}\n{\"step\":2,\"loss\":8}\n{\"step\":3,\"loss\":7}\n"
            "{\"step\":4,\"loss\":6}\n{\"event\":\"resume\",\"step\":3}\n"
            "{\"step\":4,\"loss\":6.5,\"eval_loss\":6.7}\n");
  EXPECT_EQ(text->substr(0, 71),
            R"({"schema":"sextant-metrics","version":1,"units":{"step":"1","tokens":"t)");
  auto file = read_metrics(path);
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->torn);
  EXPECT_EQ(file->resumes, std::vector<std::int64_t>{3});
  ASSERT_EQ(file->rows.size(), 4u);
  EXPECT_EQ(file->rows[3].get("loss"), 6.5);  // the last line of a step counts
  EXPECT_EQ(file->pairs("step", "eval_loss"), (std::vector<std::pair<double, double>>{{4, 6.7}}));
}

TEST(Metrics, ResumeOfAMissingFileStartsIt) {
  TempDir folder;
  auto writer = MetricsWriter::resume(folder / "metrics.jsonl", 0);
  ASSERT_TRUE(writer.ok());
  auto file = read_metrics(folder / "metrics.jsonl");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->rows.empty());
}

TEST(Metrics, ReaderRejectsOtherFilesAndIgnoresUnknownKeys) {
  const std::string header = R"({"schema":"sextant-metrics","version":1,"units":{}})"
                             "\n";
  const auto kind_of = [](const std::string& text) { return parse_metrics(text).error().kind; };
  EXPECT_EQ(kind_of(""), ErrorKind::kCorrupt);
  EXPECT_EQ(kind_of("{\"step\":1}\n"), ErrorKind::kCorrupt);
  EXPECT_EQ(kind_of(R"({"schema":"sextant-metrics","version":2})"
                    "\n"),
            ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of(header + "no json\n"), ErrorKind::kCorrupt);
  EXPECT_EQ(kind_of(header + "{\"loss\":1}\n"), ErrorKind::kCorrupt);
  EXPECT_EQ(kind_of(header + "{\"step\":1,\"loss\":\"low\"}\n"), ErrorKind::kCorrupt);
  EXPECT_EQ(parse_metrics(header + "{\"step\":1}\nno json\n").error().where, "line 3");
  auto file = parse_metrics(header + "{\"step\":1,\"loss\":\"inf\",\"newer_key\":{}}\n");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::isinf(*file->rows[0].get("loss")));
}

TEST(Metrics, MeasurementsComeFromTheTracesOfAllRanks) {
  StepTrace fast, slow;
  slow.duration_us = 100'000;
  slow.phase_us(StepPhase::kDataWait) = 1'000;
  slow.phase_us(StepPhase::kForward) = 30'000;
  slow.phase_us(StepPhase::kBackward) = 50'000;
  slow.phase_us(StepPhase::kGradSync) = 8'000;
  slow.phase_us(StepPhase::kCommExposed) = 2'000;
  slow.phase_us(StepPhase::kClip) = 1'000;
  slow.phase_us(StepPhase::kOptimizer) = 5'000;
  slow.phase_us(StepPhase::kCkpt) = 2'000;
  slow.phase_us(StepPhase::kOther) = 1'000;
  fast.duration_us = 90'000;
  fast.comm["dp_replicate"]["all_reduce"] = {2, 4096, 500, 100};
  for (StepTrace* trace : {&fast, &slow}) trace->model_flops = 5'000'000'000;
  slow.host_rss_bytes = 700;
  MeasureContext context;
  context.tokens_total = 8192;
  context.window_tokens = 4096;
  context.window_s = 0.2;
  context.num_devices = 2;
  context.peak_flops_per_device = 1e12;
  MetricsRow row(2);
  add_measurements(row, {fast, slow}, context);
  EXPECT_EQ(row.to_line(),
            R"({"step":2,"tokens":8192,"step_s":0.1,"tokens_per_s":20480,)"
            R"("tokens_per_s_per_device":10240,"mfu":0.05,"data_wait_s":0.001,"compute_s":0.08,)"
            R"("comm_exposed_s":0.01,"bubble_s":0,"optim_s":0.006,"other_s":0.003,)"
            R"("comm":{"dp_replicate":{"all_reduce":{"seconds":5e-04,"bytes":4096}}},)"
            R"("mem_peak_bytes":700})");
}

/// docs/formats/metrics.md lists every key with its unit, tag and Prometheus name.
TEST(Metrics, DocumentationMatchesTheTable) {
  const auto text = read_file(source_file("docs/formats/metrics.md"));
  ASSERT_TRUE(text.ok());
  std::set<std::string> documented;
  for (const MetricKey& key : metric_keys()) {
    const auto cell = [](std::string_view s) {
      return s.empty() ? std::string("–") : "`" + std::string(s) + "`";
    };
    const std::string line = "| `" + std::string(key.name) + "` | " + std::string(key.unit) +
                             " | " + std::string(key.text) + " | " + cell(key.tensorboard) + " | " +
                             cell(key.prometheus) + " |\n";
    EXPECT_NE(text->find(line), std::string::npos) << line;
    EXPECT_TRUE(documented.insert(std::string(key.name)).second) << key.name;
  }
}

TEST(StepLine, Golden) {
  StepLine line;
  line.step = 120;
  line.loss = 3.21449;
  line.lr = 3e-4;
  line.grad_norm = 0.91;
  line.tokens_per_s = 12'345;
  line.mfu = 0.4123;
  line.mem_peak_bytes = static_cast<std::int64_t>(61.4 * 1073741824);
  line.mem_limit_bytes = std::int64_t{80} << 30;
  line.step_s = 0.512;
  EXPECT_EQ(
      line.to_string(),
      "step 120 · loss 3.214 · lr 3.0e-04 · gnorm 0.91 · tok/s 12.3k · MFU 41.2 % · mem 61.4/80 "
      "GiB · 512 ms");
  line.eta_s = 11520;
  line.skipped = true;
  line.nonfinite = true;
  EXPECT_TRUE(line.to_string().ends_with("512 ms · eta 3h12m · skip · nonfinite"));
}

TEST(StepLine, LeavesOutWhatIsNotKnown) {
  MetricsRow row(7);
  row.set("loss", std::nan("")).set("lr", 0.0).set("tokens_per_s", 999.6).set("step_s", 2.0);
  row.set("mem_peak_bytes", 700.0 * (1 << 20));
  EXPECT_EQ(step_line_of(row).to_string(),
            "step 7 · loss nan · lr 0.0e+00 · tok/s 1k · mem 700 MiB · 2 s · nonfinite");
  row.set("loss", 10.37).set("eval_loss", 9.9994);
  EXPECT_EQ(step_line_of(row).to_string(),
            "step 7 · loss 10.4 · eval 9.999 · lr 0.0e+00 · tok/s 1k · mem 700 MiB · 2 s");
}

TEST(StepLine, Sparkline) {
  const std::vector<double> falling = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(sparkline(falling, 8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(sparkline(falling, 4), "█▆▃▁");
  EXPECT_EQ(sparkline(std::vector<double>{1, 1}, 10), "▅▅");
  EXPECT_EQ(sparkline(std::vector<double>{std::nan(""), 2, 1}, 5), "█▁");
  EXPECT_EQ(sparkline({}, 5), "");
}

}  // namespace
}  // namespace sx
