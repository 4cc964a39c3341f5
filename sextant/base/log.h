#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"

namespace sx {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

/// Log = rare facts for people: one line on the console and one JSON line in the run folder.
/// Measurement goes to StepTrace, not here. Event names are `noun.verb` and are listed in
/// docs/events.md.
namespace log {

struct Options {
  LogLevel level = LogLevel::kInfo;
  bool console = true;     ///< also a line on standard error
  std::string jsonl_path;  ///< empty = none
  int global_rank = 0;
};

/// Sets where log lines go; call in `main` (or again when the run folder is known). Thread-safe.
Result<void> configure(const Options& options);
/// One event. Thread-safe; libraries call it through SX_LOG.
void write(LogLevel level, std::string_view event,
           std::vector<std::pair<std::string, nlohmann::ordered_json>> fields);
void flush();

namespace detail {
inline void collect(std::vector<std::pair<std::string, nlohmann::ordered_json>>&) {}
template <class V, class... Rest>
void collect(std::vector<std::pair<std::string, nlohmann::ordered_json>>& out, std::string_view key,
             V&& value, Rest&&... rest) {
  out.emplace_back(std::string(key), nlohmann::ordered_json(std::forward<V>(value)));
  collect(out, std::forward<Rest>(rest)...);
}
}  // namespace detail

template <class... Fields>
void event(LogLevel level, std::string_view name, Fields&&... fields) {
  std::vector<std::pair<std::string, nlohmann::ordered_json>> out;
  detail::collect(out, std::forward<Fields>(fields)...);
  write(level, name, std::move(out));
}

}  // namespace log
}  // namespace sx

/// SX_LOG(kInfo, "ckpt.saved", "step", 120, "bytes", n)
#define SX_LOG(level, name, ...) \
  ::sx::log::event(::sx::LogLevel::level, name __VA_OPT__(, ) __VA_ARGS__)
