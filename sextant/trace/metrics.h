#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/trace/line_file.h"
#include "sextant/trace/step_trace.h"

namespace sx {

/// One key of metrics.jsonl. The table is the only source of TensorBoard tags and Prometheus names
/// (docs/formats/metrics.md is checked against it).
struct MetricKey {
  std::string_view name;
  std::string_view unit;         ///< "1" for ratios and counts without a unit
  std::string_view tensorboard;  ///< tag; empty = not written there
  std::string_view prometheus;   ///< name; empty = not exported
  std::string_view text;         ///< definition, one line
};
std::span<const MetricKey> metric_keys();

/// The values of one logged step. Keys outside the table are contract errors; a key that is not set
/// is not written.
class MetricsRow {
 public:
  explicit MetricsRow(std::int64_t step);
  std::int64_t step() const { return step_; }
  /// Numbers (not finite allowed), or for `comm`, `dropped`, `data_bad` an object.
  MetricsRow& set(std::string_view key, double value);
  MetricsRow& set_count(std::string_view key, std::int64_t value);
  MetricsRow& set_object(std::string_view key, nlohmann::ordered_json value);
  bool has(std::string_view key) const;
  /// The number under `key`, or nothing when it is absent or an object.
  std::optional<double> get(std::string_view key) const;
  /// The raw value, null when absent.
  const nlohmann::ordered_json& at(std::string_view key) const;
  /// One line in the table's key order, without newline.
  std::string to_line() const;

 private:
  friend Result<struct MetricsFile> parse_metrics(std::string_view text);
  void put(std::size_t key, nlohmann::ordered_json value);
  const nlohmann::ordered_json* find(std::string_view key) const;
  std::int64_t step_;
  /// (position in metric_keys(), value), ascending: rows are many, keys per row few.
  std::vector<std::pair<std::size_t, nlohmann::ordered_json>> values_;
};

/// What `add_measurements` needs beyond the traces.
struct MeasureContext {
  std::int64_t tokens_total = 0;   ///< since the start of training, all ranks, this step included
  std::int64_t window_tokens = 0;  ///< of the steps since the last logged row, all ranks
  double window_s = 0;             ///< their wall time
  std::int64_t num_devices = 1;
  double peak_flops_per_device = 0;  ///< of the compute dtype; 0 = unknown: no mfu, hfu
};

/// Fills tokens, step_s, rates, mfu, phases, comm and memory of `row` from this step's traces of
/// all ranks: times of the slowest rank, comm of the first, memory the maximum. Requires: at least
/// one trace.
void add_measurements(MetricsRow& row, const std::vector<StepTrace>& ranks,
                      const MeasureContext& context);

/// Appends to metrics.jsonl; each row reaches the kernel before `write` returns. Not thread-safe.
///
/// One row per step: what is known at a step (evaluation too) goes into that step's row.
class MetricsWriter {
 public:
  /// Starts the file with its header line; an existing file is replaced. Errors: kIo.
  static Result<MetricsWriter> create(const fs::path& path);
  /// Goes on after a restart at `step`: earlier lines are kept, a torn last line is cut off, a
  /// resume line is added. A missing file is created. Errors: kIo.
  static Result<MetricsWriter> resume(const fs::path& path, std::int64_t step);
  Result<void> write(const MetricsRow& row);

 private:
  explicit MetricsWriter(LineFile file) : file_(std::move(file)) {}
  LineFile file_;
};

struct MetricsFile {
  std::vector<MetricsRow> rows;       ///< ascending steps; the last line of each step
  std::vector<std::int64_t> resumes;  ///< steps at which the run was resumed, in file order
  bool torn = false;                  ///< the last line was cut off in the middle
  /// Pairs (x, y) of rows that have both keys as numbers.
  std::vector<std::pair<double, double>> pairs(std::string_view x, std::string_view y) const;
};
/// Errors: kNotFound, kIo, kCorrupt (no header, a line that is not JSON, line number told),
/// kUnsupported (newer version). Keys this version does not know are ignored.
Result<MetricsFile> read_metrics(const fs::path& path);
Result<MetricsFile> parse_metrics(std::string_view text);

}  // namespace sx
