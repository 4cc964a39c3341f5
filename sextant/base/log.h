#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

enum class LogLevel { kError, kWarn, kInfo, kDebug };
const char* to_string(LogLevel level);
/// "error", "warn", "info", "debug". Errors: kInvalid.
Result<LogLevel> parse_log_level(std::string_view text);

/// Log = rare facts for people: one line on the console and one JSON line in the run folder.
/// Measurement goes to StepTrace, not here. Event names are `noun.verb` and are listed in
/// docs/events.md.
namespace log {

using Fields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

struct Options {
  LogLevel level = LogLevel::kInfo;
  bool console = true;     ///< also a line on standard error, from global rank 0 only
  std::string jsonl_path;  ///< empty = none; appended to
  int global_rank = 0;
};

/// Sets where log lines go; call in `main` (or again when the run folder is known). Before the
/// first call errors and warnings go to the console. Thread-safe. Errors: kIo when the file cannot
/// be opened; then nothing changes.
Result<void> configure(const Options& options);
/// One event. Thread-safe; libraries call it through SX_LOG.
void write(LogLevel level, std::string_view event, const Fields& fields);
bool enabled(LogLevel level);
/// fsyncs the JSON file. Lines themselves are never buffered: each is one write.
void flush();

/// While it lives, events of this thread carry this global rank and coordinate: for ranks that are
/// threads.
class RankScope {
 public:
  explicit RankScope(int global_rank, nlohmann::ordered_json coord = nullptr);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  int previous_rank_;
  nlohmann::ordered_json previous_coord_;
};

/// The JSON line of one event, without a newline:
/// {"ts":"2026-11-30T05:12:03.123456Z","mono_us":1,"level":"info","event":"ckpt.saved","rank":0,"step":120}.
/// Non-finite numbers become the strings "nan", "inf", "-inf"; bytes that are not UTF-8 become
/// U+FFFD.
std::string json_line(LogLevel level, std::string_view event, const Fields& fields, int global_rank,
                      const nlohmann::ordered_json& coord, std::int64_t unix_us,
                      std::int64_t mono_us);
/// The console line of one event: "ckpt.saved · step 120 · bytes 4096", with "warn " or "error " in
/// front.
std::string console_line(LogLevel level, std::string_view event, const Fields& fields);

namespace detail {
inline void collect(Fields&) {}
template <class V, class... Rest>
void collect(Fields& out, std::string_view key, V&& value, Rest&&... rest) {
  out.emplace_back(std::string(key), nlohmann::ordered_json(std::forward<V>(value)));
  collect(out, std::forward<Rest>(rest)...);
}
/// True at most once every `seconds` for one `last_us`.
bool is_due(std::atomic<std::int64_t>& last_us, double seconds);
}  // namespace detail

template <class... KeysAndValues>
void event(LogLevel level, std::string_view name, KeysAndValues&&... keys_and_values) {
  if (!enabled(level)) return;
  Fields out;
  detail::collect(out, std::forward<KeysAndValues>(keys_and_values)...);
  write(level, name, out);
}

}  // namespace log
}  // namespace sx

/// SX_LOG(kInfo, "ckpt.saved", "step", 120, "bytes", n)
#define SX_LOG(level, name, ...) \
  ::sx::log::event(::sx::LogLevel::level, name __VA_OPT__(, ) __VA_ARGS__)

/// As SX_LOG, at most once every `seconds` from this place of the source.
#define SX_LOG_EVERY_S(seconds, level, name, ...)           \
  do {                                                      \
    static std::atomic<std::int64_t> sx_last_us{INT64_MIN}; \
    if (::sx::log::detail::is_due(sx_last_us, seconds))     \
      SX_LOG(level, name __VA_OPT__(, ) __VA_ARGS__);       \
  } while (false)
