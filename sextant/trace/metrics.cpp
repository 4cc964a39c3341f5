#include "sextant/trace/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "sextant/base/check.h"
#include "sextant/trace/json_text.h"

namespace sx {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSchema = "sextant-metrics";
constexpr int kVersion = 1;

/// Position in metric_keys(), or its size when there is no such key.
std::size_t key_index(std::string_view name) {
  static const auto kIndex = [] {
    std::unordered_map<std::string_view, std::size_t> index;
    for (std::size_t i = 0; i < metric_keys().size(); ++i) index.emplace(metric_keys()[i].name, i);
    return index;
  }();
  const auto it = kIndex.find(name);
  return it == kIndex.end() ? metric_keys().size() : it->second;
}

bool is_known(std::size_t key) { return key < metric_keys().size(); }

/// Keys that hold an object instead of a number.
bool holds_object(std::string_view key) {
  return key == "comm" || key == "dropped" || key == "data_bad" || key == "data_stage_wait_s";
}

std::string header_line() {
  ordered_json units = ordered_json::object();
  for (const MetricKey& key : metric_keys()) units[std::string(key.name)] = key.unit;
  return json_line({{"schema", kSchema}, {"version", kVersion}, {"units", units}});
}

std::string resume_line(std::int64_t step) {
  return json_line({{"event", "resume"}, {"step", step}});
}

Error corrupt(const std::string& message, std::size_t line) {
  return Error{ErrorKind::kCorrupt, message, fmt::format("line {}", line)};
}

Result<void> check_header(const json& header) {
  if (!header.is_object() || header.value("schema", json()) != kSchema) {
    return corrupt("no sextant-metrics header", 1);
  }
  const json version = header.value("version", json());
  if (!version.is_number_integer()) return corrupt("header without a version", 1);
  if (version.get<std::int64_t>() != kVersion) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("version {} of sextant-metrics; this program reads version {}",
                             version.get<std::int64_t>(), kVersion),
                 "line 1"};
  }
  return {};
}

}  // namespace

MetricsRow::MetricsRow(std::int64_t step) : step_(step) {}

void MetricsRow::put(std::size_t key, ordered_json value) {
  const auto at =
      std::lower_bound(values_.begin(), values_.end(), key,
                       [](const auto& entry, std::size_t k) { return entry.first < k; });
  if (at != values_.end() && at->first == key) {
    at->second = std::move(value);
  } else {
    values_.emplace(at, key, std::move(value));
  }
}

const ordered_json* MetricsRow::find(std::string_view name) const {
  const std::size_t key = key_index(name);
  for (const auto& [at, value] : values_) {
    if (at == key) return &value;
  }
  return nullptr;
}

MetricsRow& MetricsRow::set(std::string_view name, double value) {
  const std::size_t key = key_index(name);
  SX_CHECK(is_known(key) && !holds_object(name) && name != "step",
           "{} is no number of metrics.jsonl", name);
  put(key, value);
  return *this;
}

MetricsRow& MetricsRow::set_count(std::string_view name, std::int64_t value) {
  const std::size_t key = key_index(name);
  SX_CHECK(is_known(key) && !holds_object(name) && name != "step",
           "{} is no number of metrics.jsonl", name);
  put(key, value);
  return *this;
}

MetricsRow& MetricsRow::set_object(std::string_view name, ordered_json value) {
  const std::size_t key = key_index(name);
  SX_CHECK(is_known(key) && holds_object(name) && value.is_object(),
           "{} is no object of metrics.jsonl", name);
  put(key, std::move(value));
  return *this;
}

bool MetricsRow::has(std::string_view key) const { return find(key) != nullptr; }

std::optional<double> MetricsRow::get(std::string_view key) const {
  if (key == "step") return static_cast<double>(step_);
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto number = number_of(*value);
  if (!number) return std::nullopt;
  return *number;
}

const ordered_json& MetricsRow::at(std::string_view key) const {
  static const ordered_json kNull;
  const ordered_json* value = find(key);
  return value == nullptr ? kNull : *value;
}

std::string MetricsRow::to_line() const {
  ordered_json line = {{"step", step_}};
  for (const auto& [key, value] : values_) line[std::string(metric_keys()[key].name)] = value;
  return json_line(line);
}

void add_measurements(MetricsRow& row, const std::vector<StepTrace>& ranks,
                      const MeasureContext& context) {
  SX_CHECK(!ranks.empty(), "measurements of no rank");
  const StepTrace& slowest = *std::max_element(
      ranks.begin(), ranks.end(),
      [](const StepTrace& a, const StepTrace& b) { return a.duration_us < b.duration_us; });
  const double step_s = slowest.duration_us / 1e6;
  row.set_count("tokens", context.tokens_total);
  row.set("step_s", step_s);
  if (context.window_s > 0) {
    const double rate = static_cast<double>(context.window_tokens) / context.window_s;
    row.set("tokens_per_s", rate);
    row.set("tokens_per_s_per_device", rate / static_cast<double>(context.num_devices));
  }

  double model_flops = 0, hardware_flops = 0;
  std::int64_t allocated = 0, reserved = 0;
  for (const StepTrace& trace : ranks) {
    model_flops += static_cast<double>(trace.model_flops);
    hardware_flops += static_cast<double>(trace.hardware_flops);
    // Host runs have no allocator statistics: the process's resident size stands for the peak.
    allocated = std::max(allocated, trace.peak_allocated_bytes > 0 ? trace.peak_allocated_bytes
                                                                   : trace.host_rss_bytes);
    reserved = std::max(reserved, trace.peak_reserved_bytes);
  }
  const double available =
      step_s * static_cast<double>(context.num_devices) * context.peak_flops_per_device;
  if (available > 0 && model_flops > 0) row.set("mfu", model_flops / available);
  if (available > 0 && hardware_flops > 0) row.set("hfu", hardware_flops / available);

  const auto seconds = [&](std::initializer_list<StepPhase> phases) {
    double us = 0;
    for (const StepPhase phase : phases) us += slowest.phase_us(phase);
    return us / 1e6;
  };
  row.set("data_wait_s", seconds({StepPhase::kDataWait}));
  row.set("compute_s", seconds({StepPhase::kForward, StepPhase::kBackward}));
  row.set("comm_exposed_s", seconds({StepPhase::kCommExposed, StepPhase::kGradSync}));
  row.set("bubble_s", seconds({StepPhase::kBubble}));
  row.set("optim_s", seconds({StepPhase::kClip, StepPhase::kOptimizer}));
  row.set("other_s", seconds({StepPhase::kCkpt, StepPhase::kOther}));
  if (!ranks.front().comm.empty()) {
    ordered_json comm = ordered_json::object();
    for (const auto& [axis, ops] : ranks.front().comm) {
      for (const auto& [op, counts] : ops) {
        comm[axis][op] = {{"seconds", counts.us / 1e6}, {"bytes", counts.bytes}};
      }
    }
    row.set_object("comm", std::move(comm));
  }
  if (allocated > 0) row.set_count("mem_peak_bytes", allocated);
  if (reserved > 0) row.set_count("mem_reserved_bytes", reserved);
}

Result<MetricsWriter> MetricsWriter::create(const fs::path& path) {
  SX_TRY(LineFile file, LineFile::open(path, LineFile::Existing::kReplace));
  SX_TRY_VOID(file.append(header_line()));
  return MetricsWriter(std::move(file));
}

Result<MetricsWriter> MetricsWriter::resume(const fs::path& path, std::int64_t step) {
  SX_TRY(LineFile file, LineFile::open(path, LineFile::Existing::kKeep));
  if (file.empty()) SX_TRY_VOID(file.append(header_line()));
  SX_TRY_VOID(file.append(resume_line(step)));
  return MetricsWriter(std::move(file));
}

Result<void> MetricsWriter::write(const MetricsRow& row) { return file_.append(row.to_line()); }

std::vector<std::pair<double, double>> MetricsFile::pairs(std::string_view x,
                                                          std::string_view y) const {
  std::vector<std::pair<double, double>> out;
  for (const MetricsRow& row : rows) {
    const auto a = row.get(x), b = row.get(y);
    if (a && b) out.emplace_back(*a, *b);
  }
  return out;
}

Result<MetricsFile> parse_metrics(std::string_view text) {
  MetricsFile file;
  std::map<std::int64_t, MetricsRow> rows;
  TextLine line;
  bool header_seen = false;
  while (next_line(text, line)) {
    if (line.text.empty()) continue;
    const json value = json::parse(line.text, nullptr, false);
    if (!value.is_object()) return corrupt("not a JSON object", line.number);
    if (!header_seen) {
      SX_TRY_VOID(check_header(value));
      header_seen = true;
      continue;
    }
    const auto step = value.find("step");
    if (step == value.end() || !step->is_number_integer()) {
      return corrupt("no integer step", line.number);
    }
    const auto number = step->get<std::int64_t>();
    if (value.contains("event")) {
      if (value["event"] == "resume") file.resumes.push_back(number);
      continue;
    }
    MetricsRow row(number);
    for (const auto& [key, field] : value.items()) {
      const std::size_t index = key_index(key);
      if (key == "step" || !is_known(index)) continue;
      if (holds_object(key) ? !field.is_object() : !number_of(field).ok()) {
        return corrupt("key " + key + " has a wrong type", line.number);
      }
      row.put(index, ordered_json(field));
    }
    rows.insert_or_assign(number, std::move(row));
  }
  file.torn = !text.empty();
  if (!header_seen) return corrupt("no sextant-metrics header", 1);
  file.rows.reserve(rows.size());
  for (auto& [step, row] : rows) file.rows.push_back(std::move(row));
  return file;
}

Result<MetricsFile> read_metrics(const fs::path& path) {
  SX_TRY(const std::string text, read_file(path));
  auto file = parse_metrics(text);
  if (file) return file;
  Error error = std::move(file).error();
  error.where = path.string() + " " + error.where;
  return error;
}

}  // namespace sx
