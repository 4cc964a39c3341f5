#include "sextant/trace/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

#include "sextant/base/check.h"
#include "sextant/trace/json_text.h"

namespace sx {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000.0; }

/// Times are kept and written with three decimals, that is in whole nanoseconds.
double rounded_us(double us) { return std::round(us * 1000.0) / 1000.0; }

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half),
                   values.end());
  const double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (upper +
          *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half))) /
         2;
}

}  // namespace

const char* to_string(StepPhase phase) {
  switch (phase) {
    case StepPhase::kDataWait: return "data_wait";
    case StepPhase::kForward: return "forward";
    case StepPhase::kBackward: return "backward";
    case StepPhase::kGradSync: return "grad_sync";
    case StepPhase::kClip: return "clip";
    case StepPhase::kOptimizer: return "optimizer";
    case StepPhase::kBubble: return "bubble";
    case StepPhase::kCommExposed: return "comm_exposed";
    case StepPhase::kCkpt: return "ckpt";
    case StepPhase::kOther: return "other";
  }
  return "?";
}

double StepTrace::slack_us() const { return std::max(0.01 * duration_us, 200.0); }

double StepTrace::phases_sum_us() const {
  double sum = 0;
  for (const double us : phases_us) sum += us;
  return sum;
}

bool StepTrace::phases_add_up() const {
  return std::fabs(duration_us - phases_sum_us()) <= slack_us();
}

StepRecorder::Span::Span(StepRecorder& recorder, StepPhase phase)
    : recorder_(recorder), outer_(recorder.current_) {
  recorder_.switch_to(phase);
}

StepRecorder::Span::~Span() { recorder_.switch_to(outer_); }

void StepRecorder::begin_step(std::int64_t step) {
  SX_CHECK(!in_step_, "step {} begins inside another", step);
  begin_ns_ = since_ns_ = now_ns();
  trace_ = StepTrace{};
  trace_.first_step = origin_ns_ < 0;
  if (origin_ns_ < 0) origin_ns_ = begin_ns_;
  trace_.step = step;
  trace_.begin_us = microseconds(begin_ns_ - origin_ns_);
  current_ = StepPhase::kOther;
  in_step_ = true;
}

void StepRecorder::switch_to(StepPhase phase) {
  if (!in_step_) return;
  const std::int64_t now = now_ns();
  trace_.phase_us(current_) += microseconds(now - since_ns_);
  since_ns_ = now;
  current_ = phase;
}

void StepRecorder::add_comm(const std::string& axis, const std::string& op,
                            const CommCount& counts) {
  CommCount& sum = trace_.comm[axis][op];
  sum.count += counts.count;
  sum.bytes += counts.bytes;
  sum.us += counts.us;
  sum.exposed_us += counts.exposed_us;
}

StepTrace StepRecorder::end_step() {
  SX_CHECK(in_step_ && current_ == StepPhase::kOther, "a span is open at the end of step {}",
           trace_.step);
  switch_to(StepPhase::kOther);
  trace_.duration_us = microseconds(since_ns_ - begin_ns_);
  for (double& us : trace_.phases_us) us = rounded_us(us);
  in_step_ = false;
  return std::move(trace_);
}

std::string step_trace_name(std::int64_t global_rank) {
  return fmt::format("trace/rank-{:05}.jsonl", global_rank);
}

std::string to_json_line(const StepTrace& trace) {
  ordered_json line;
  line["step"] = trace.step;
  line["begin_us"] = rounded_us(trace.begin_us);
  line["duration_us"] = rounded_us(trace.duration_us);
  ordered_json& phases = line["phases_us"] = ordered_json::object();
  for (int i = 0; i < kNumStepPhases; ++i) {
    const auto phase = static_cast<StepPhase>(i);
    phases[to_string(phase)] = rounded_us(trace.phase_us(phase));
  }
  ordered_json& comm = line["comm"] = ordered_json::object();
  for (const auto& [axis, ops] : trace.comm) {
    for (const auto& [op, counts] : ops) {
      comm[axis][op] = {{"count", counts.count},
                        {"bytes", counts.bytes},
                        {"us", rounded_us(counts.us)},
                        {"exposed_us", rounded_us(counts.exposed_us)}};
    }
  }
  line["tokens"] = trace.tokens;
  line["model_flops"] = trace.model_flops;
  line["hardware_flops"] = trace.hardware_flops;
  line["peak_allocated_bytes"] = trace.peak_allocated_bytes;
  line["peak_reserved_bytes"] = trace.peak_reserved_bytes;
  line["host_rss_bytes"] = trace.host_rss_bytes;
  line["first_step"] = trace.first_step;
  if (trace.loss) line["loss"] = *trace.loss;
  if (trace.lr) line["lr"] = *trace.lr;
  if (trace.grad_norm) line["grad_norm"] = *trace.grad_norm;
  return json_line(line);
}

namespace {

Error corrupt(const std::string& message) { return Error{ErrorKind::kCorrupt, message, ""}; }

/// Reads the fields of one object; a field of a wrong type is remembered as the first error.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  void read(const char* key, std::int64_t& to) {
    with(key, [&](const json& value) {
      if (!value.is_number_integer()) return false;
      // Above 2^63 nothing we count exists; casting would change the sign.
      if (value.is_number_unsigned() &&
          value.get<std::uint64_t>() >
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return false;
      }
      to = value.get<std::int64_t>();
      return true;
    });
  }
  void read(const char* key, double& to) {
    with(key, [&](const json& value) {
      auto number = number_of(value);
      if (!number) return false;
      to = *number;
      return true;
    });
  }
  void read(const char* key, std::optional<double>& to) {
    double value = 0;
    if (object_.contains(key)) {
      read(key, value);
      to = value;
    }
  }
  void read(const char* key, bool& to) {
    with(key, [&](const json& value) {
      if (!value.is_boolean()) return false;
      to = value.get<bool>();
      return true;
    });
  }
  const std::string& error() const { return error_; }

 private:
  void with(const char* key, const std::function<bool(const json&)>& take) {
    const auto it = object_.find(key);
    if (it == object_.end()) return;
    if (!take(*it) && error_.empty()) error_ = std::string("field ") + key + " has a wrong type";
  }
  const json& object_;
  std::string error_;
};

Result<void> read_phases(const json& phases, StepTrace& trace) {
  if (!phases.is_object()) return corrupt("phases_us is no object");
  for (const auto& [name, value] : phases.items()) {
    int found = -1;
    for (int i = 0; i < kNumStepPhases; ++i) {
      if (name == to_string(static_cast<StepPhase>(i))) found = i;
    }
    if (found < 0) return corrupt("unknown phase " + name.substr(0, 40));
    SX_TRY(trace.phases_us[static_cast<std::size_t>(found)], number_of(value));
  }
  return {};
}

Result<void> read_comm(const json& comm, StepTrace& trace) {
  if (!comm.is_object()) return corrupt("comm is no object");
  for (const auto& [axis, ops] : comm.items()) {
    if (!ops.is_object()) return corrupt("comm holds something else than objects");
    for (const auto& [op, value] : ops.items()) {
      if (!value.is_object()) return corrupt("comm holds something else than objects");
      CommCount& counts = trace.comm[axis][op];
      Fields fields(value);
      fields.read("count", counts.count);
      fields.read("bytes", counts.bytes);
      fields.read("us", counts.us);
      fields.read("exposed_us", counts.exposed_us);
      if (!fields.error().empty()) return corrupt(fields.error());
    }
  }
  return {};
}

}  // namespace

Result<StepTrace> parse_step_trace(std::string_view line) {
  const json json = json::parse(line, nullptr, false);
  if (!json.is_object()) return corrupt("not a JSON object");
  if (!json.contains("step") || !json.contains("phases_us")) {
    return corrupt("no step or no phases_us");
  }
  StepTrace trace;
  Fields fields(json);
  fields.read("step", trace.step);
  fields.read("begin_us", trace.begin_us);
  fields.read("duration_us", trace.duration_us);
  fields.read("tokens", trace.tokens);
  fields.read("model_flops", trace.model_flops);
  fields.read("hardware_flops", trace.hardware_flops);
  fields.read("peak_allocated_bytes", trace.peak_allocated_bytes);
  fields.read("peak_reserved_bytes", trace.peak_reserved_bytes);
  fields.read("host_rss_bytes", trace.host_rss_bytes);
  fields.read("first_step", trace.first_step);
  fields.read("loss", trace.loss);
  fields.read("lr", trace.lr);
  fields.read("grad_norm", trace.grad_norm);
  if (!fields.error().empty()) return corrupt(fields.error());
  SX_TRY_VOID(read_phases(json["phases_us"], trace));
  if (json.contains("comm")) SX_TRY_VOID(read_comm(json["comm"], trace));
  return trace;
}

Result<StepTraceWriter> StepTraceWriter::open(const fs::path& path) {
  SX_TRY(LineFile file, LineFile::open(path, LineFile::Existing::kKeep));
  return StepTraceWriter(std::move(file));
}

Result<void> StepTraceWriter::write(const StepTrace& trace) {
  return file_.append(to_json_line(trace));
}

Result<std::vector<StepTrace>> read_step_traces(const fs::path& path) {
  SX_TRY(const std::string text, read_file(path));
  std::map<std::int64_t, StepTrace> by_step;
  std::string_view rest = text;
  TextLine line;
  while (next_line(rest, line)) {
    if (line.text.empty()) continue;
    auto trace = parse_step_trace(line.text);
    if (!trace) {
      Error error = std::move(trace).error();
      error.where = fmt::format("{} line {}", path.string(), line.number);
      return error;
    }
    by_step[trace->step] = std::move(*trace);
  }
  std::vector<StepTrace> traces;
  traces.reserve(by_step.size());
  for (auto& [step, trace] : by_step) traces.push_back(std::move(trace));
  return traces;
}

PhaseSummary summarize_phases(const std::vector<StepTrace>& traces) {
  const bool all_first =
      std::all_of(traces.begin(), traces.end(), [](const StepTrace& t) { return t.first_step; });
  std::vector<const StepTrace*> used;
  for (const StepTrace& trace : traces) {
    if (all_first || !trace.first_step) used.push_back(&trace);
  }
  PhaseSummary summary;
  summary.steps = static_cast<std::int64_t>(used.size());
  if (used.empty()) return summary;
  const auto median_of = [&](auto field) {
    std::vector<double> values;
    values.reserve(used.size());
    for (const StepTrace* trace : used) values.push_back(field(*trace));
    return median(std::move(values));
  };
  summary.duration_us = median_of([](const StepTrace& t) { return t.duration_us; });
  for (std::size_t i = 0; i < kNumStepPhases; ++i) {
    summary.phases_us[i] = median_of([i](const StepTrace& t) { return t.phases_us[i]; });
  }
  return summary;
}

}  // namespace sx
