#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/trace/line_file.h"

namespace sx {

/// What a step's time goes to. Every microsecond of a step belongs to exactly one phase.
enum class StepPhase {
  kDataWait,  ///< the loader had no batch ready
  kForward,
  kBackward,
  kGradSync,  ///< waiting for gradient reductions after the last backward
  kClip,      ///< gradient norm and clipping
  kOptimizer,
  kBubble,       ///< pipeline stage with nothing to do
  kCommExposed,  ///< waiting for any other collective
  kCkpt,         ///< saving, as far as it blocks the step
  kOther,        ///< the rest: duration less all the others
};
inline constexpr int kNumStepPhases = 10;

/// "data_wait", "forward", ...: the keys of `phases_us`.
const char* to_string(StepPhase phase);

/// Collectives of one kind on one axis within a step.
struct CommCount {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< payload of this rank, before any algorithm's factor
  double us = 0;           ///< start to completion, summed
  double exposed_us = 0;   ///< of it, spent waiting
  friend bool operator==(const CommCount&, const CommCount&) = default;
};

/// One optimizer step of one rank, measured. All time, byte, flop and memory fields of
/// metrics.jsonl are computed from it (metrics.h) and from nothing else. Format on disk:
/// docs/formats/step_trace.md.
struct StepTrace {
  std::int64_t step = 0;   ///< steps done when this one ended: the first step has 1
  double begin_us = 0;     ///< monotonic clock, since the process's first step began
  double duration_us = 0;  ///< wall time of the step
  std::array<double, kNumStepPhases> phases_us{};
  /// axis ("dp_replicate") -> operation ("all_reduce") -> counts.
  std::map<std::string, std::map<std::string, CommCount>> comm;

  std::int64_t tokens = 0;          ///< this rank's tokens of this step, without padding
  std::int64_t model_flops = 0;     ///< from the model's inventory, no recompute
  std::int64_t hardware_flops = 0;  ///< with recompute
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t host_rss_bytes = 0;
  bool first_step = false;  ///< first of its process: allocators and kernels warm up in it

  // From the trainer, the same on every rank.
  std::optional<double> loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;  ///< L2 of the whole model before clipping

  double& phase_us(StepPhase phase) { return phases_us[static_cast<std::size_t>(phase)]; }
  double phase_us(StepPhase phase) const { return phases_us[static_cast<std::size_t>(phase)]; }
  /// max(1 % of the step, 200 us): how far `duration_us` may be from the sum of the named phases;
  /// also how large `other` may be in the fast tests.
  double slack_us() const;
  double phases_sum_us() const;
  /// |duration - sum| within the slack.
  bool phases_add_up() const;
  friend bool operator==(const StepTrace&, const StepTrace&) = default;
};

/// Fills the times of a StepTrace. One object per rank thread; not thread-safe.
///
///   recorder.begin_step(step);
///   { auto span = recorder.span(StepPhase::kForward); ... }
///   StepTrace trace = recorder.end_step();
///
/// Spans nest: the inner one pauses the outer, so that no time is counted twice. What no span
/// covers is `other`.
class StepRecorder {
 public:
  class Span {
   public:
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    friend class StepRecorder;
    Span(StepRecorder& recorder, StepPhase phase);
    StepRecorder& recorder_;
    StepPhase outer_;
  };

  /// Requires: the last step was ended.
  void begin_step(std::int64_t step);
  [[nodiscard]] Span span(StepPhase phase) { return Span(*this, phase); }
  void add_comm(const std::string& axis, const std::string& op, const CommCount& counts);
  /// The step's trace; the caller adds tokens, flops, memory, loss. Requires: all spans closed.
  StepTrace end_step();

 private:
  void switch_to(StepPhase phase);
  std::int64_t origin_ns_ = -1;
  std::int64_t begin_ns_ = -1;
  std::int64_t since_ns_ = 0;
  StepPhase current_ = StepPhase::kOther;
  StepTrace trace_;
  bool in_step_ = false;
};

/// "trace/rank-00003.jsonl".
std::string step_trace_name(std::int64_t global_rank);

/// One JSON line without its newline.
std::string to_json_line(const StepTrace& trace);
/// Errors: kCorrupt (not JSON, a field of the wrong type, an unknown phase). Unknown fields are
/// ignored.
Result<StepTrace> parse_step_trace(std::string_view line);

/// Appends lines to a file of StepTraces; each line reaches the kernel before `write` returns. Not
/// thread-safe.
class StepTraceWriter {
 public:
  /// Makes the file or goes on at its end (a torn last line is cut off). Errors: kIo.
  static Result<StepTraceWriter> open(const fs::path& path);
  Result<void> write(const StepTrace& trace);

 private:
  explicit StepTraceWriter(LineFile file) : file_(std::move(file)) {}
  LineFile file_;
};

/// All steps of one file in order; where a step stands twice (resume) the last wins. A torn last
/// line is left out. Errors: kNotFound, kIo, kCorrupt with the line's number.
Result<std::vector<StepTrace>> read_step_traces(const fs::path& path);

/// Medians over steps, first steps left out when there are others: what the report's bar shows.
struct PhaseSummary {
  std::int64_t steps = 0;
  double duration_us = 0;                          ///< median
  std::array<double, kNumStepPhases> phases_us{};  ///< medians
};
PhaseSummary summarize_phases(const std::vector<StepTrace>& traces);

}  // namespace sx
