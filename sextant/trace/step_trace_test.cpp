#include "sextant/trace/step_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "sextant/base/check.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

StepTrace sample_trace() {
  StepTrace trace;
  trace.step = 3;
  trace.begin_us = 1234.5;
  trace.duration_us = 512.25;
  trace.phase_us(StepPhase::kForward) = 200.125;
  trace.phase_us(StepPhase::kOther) = 312.125;
  trace.comm["dp_replicate"]["all_reduce"] = {2, 8192, 10.5, 3.25};
  trace.tokens = 4096;
  trace.model_flops = 1'000'000'007;
  trace.host_rss_bytes = 1 << 20;
  trace.loss = 3.25;
  trace.lr = 3e-4;
  return trace;
}

TEST(StepTrace, LineGolden) {
  EXPECT_EQ(
      to_json_line(sample_trace()),
      R"({"step":3,"begin_us":1234.5,"duration_us":512.25,"phases_us":{"data_wait":0,"forward":200.125,)"
      R"("backward":0,"grad_sync":0,"clip":0,"optimizer":0,"bubble":0,"comm_exposed":0,"ckpt":0,)"
      R"("other":312.125},"comm":{"dp_replicate":{"all_reduce":{"count":2,"bytes":8192,"us":10.5,)"
      R"("exposed_us":3.25}}},"tokens":4096,"model_flops":1000000007,"hardware_flops":0,)"
      R"("peak_allocated_bytes":0,"peak_reserved_bytes":0,"host_rss_bytes":1048576,)"
      R"("first_step":false,"loss":3.25,"lr":3e-04})");
}

TEST(StepTrace, ReadsWhatItWrites) {
  const StepTrace trace = sample_trace();
  const auto back = parse_step_trace(to_json_line(trace));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(*back, trace);
}

TEST(StepTrace, ReaderRejects) {
  for (const char* line :
       {"", "[]", "{}", R"({"step":1})", R"({"step":"1","phases_us":{}})",
        R"({"step":1,"phases_us":[]})", R"({"step":1,"phases_us":{"walking":1}})",
        R"({"step":1,"phases_us":{"other":"much"}})", R"({"step":1,"phases_us":{},"comm":1})",
        R"({"step":1,"phases_us":{},"comm":{"tp":{"all_gather":7}}})",
        R"({"step":1,"phases_us":{},"tokens":18446744073709551615})",
        R"({"step":1,"phases_us":{},"first_step":1})"}) {
    const auto trace = parse_step_trace(line);
    ASSERT_FALSE(trace.ok()) << line;
    EXPECT_EQ(trace.error().kind, ErrorKind::kCorrupt);
  }
  EXPECT_TRUE(parse_step_trace(R"({"step":1,"phases_us":{},"newer":{}})").ok());
}

TEST(StepTrace, FileKeepsTheLastOfEachStepAndDropsATornLine) {
  TempDir folder;
  const fs::path path = folder / step_trace_name(3);
  EXPECT_EQ(step_trace_name(3), "trace/rank-00003.jsonl");
  StepTrace trace = sample_trace();
  {
    auto writer = StepTraceWriter::open(path);
    ASSERT_TRUE(writer.ok());
    for (const std::int64_t step : {1, 2, 3}) {
      trace.step = step;
      ASSERT_TRUE(writer->write(trace).ok());
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\":4,\"pha";
  {
    auto writer = StepTraceWriter::open(path);
    ASSERT_TRUE(writer.ok());
    trace.step = 2;
    trace.tokens = 7;
    ASSERT_TRUE(writer->write(trace).ok());
  }
  const auto traces = read_step_traces(path);
  ASSERT_TRUE(traces.ok()) << traces.error().to_string();
  ASSERT_EQ(traces->size(), 3u);
  EXPECT_EQ((*traces)[1].tokens, 7);
  std::ofstream(path, std::ios::app) << "{}\n";
  EXPECT_NE(read_step_traces(path).error().where.find("line 5"), std::string::npos);
}

TEST(StepTrace, PhasesAddUp) {
  StepTrace trace = sample_trace();
  EXPECT_TRUE(trace.phases_add_up());
  trace.duration_us += 201;
  EXPECT_FALSE(trace.phases_add_up());
  trace.duration_us = 100'000;
  trace.phase_us(StepPhase::kOther) = 98'900;
  EXPECT_TRUE(trace.phases_add_up());  // 900 us of 100 ms are within 1 %
}

TEST(StepTrace, SummaryIsTheMedianWithoutFirstSteps) {
  std::vector<StepTrace> traces(5);
  const double forward[] = {900, 10, 30, 20, 40};
  for (std::size_t i = 0; i < 5; ++i) {
    traces[i].first_step = i == 0;
    traces[i].duration_us = 2 * forward[i];
    traces[i].phase_us(StepPhase::kForward) = forward[i];
  }
  const PhaseSummary summary = summarize_phases(traces);
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.duration_us, 50);
  EXPECT_EQ(summary.phases_us[static_cast<std::size_t>(StepPhase::kForward)], 25);
  EXPECT_EQ(summarize_phases({traces[0]}).steps, 1);
  EXPECT_EQ(summarize_phases({}).steps, 0);
}

TEST(StepRecorder, InnerSpansPauseOuterOnes) {
  using namespace std::chrono_literals;
  StepRecorder recorder;
  recorder.begin_step(1);
  {
    auto backward = recorder.span(StepPhase::kBackward);
    std::this_thread::sleep_for(2ms);
    {
      auto comm = recorder.span(StepPhase::kCommExposed);
      std::this_thread::sleep_for(3ms);
    }
    std::this_thread::sleep_for(1ms);
  }
  recorder.add_comm("dp_replicate", "all_reduce", {1, 100, 5, 1});
  recorder.add_comm("dp_replicate", "all_reduce", {1, 28, 5, 1});
  const StepTrace trace = recorder.end_step();
  EXPECT_TRUE(trace.first_step);
  EXPECT_GE(trace.phase_us(StepPhase::kBackward), 3000);
  EXPECT_GE(trace.phase_us(StepPhase::kCommExposed), 3000);
  // All time is counted once, exactly but for rounding to nanoseconds.
  EXPECT_NEAR(trace.phases_sum_us(), trace.duration_us, 0.01);
  EXPECT_EQ(trace.comm.at("dp_replicate").at("all_reduce"), (CommCount{2, 128, 10, 2}));
  recorder.begin_step(2);
  EXPECT_THROW(recorder.begin_step(3), ContractError);
  {
    auto open = recorder.span(StepPhase::kForward);
    EXPECT_THROW(recorder.end_step(), ContractError);
  }
  const StepTrace second = recorder.end_step();
  EXPECT_FALSE(second.first_step);
  EXPECT_GT(second.begin_us, 0);
  EXPECT_TRUE(second.comm.empty());
}

}  // namespace
}  // namespace sx
