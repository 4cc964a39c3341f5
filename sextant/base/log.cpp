#include "sextant/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "sextant/base/check.h"
#include "sextant/base/clock.h"
#include "sextant/base/console.h"

namespace sx {

const char* to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "?";
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    if (text == to_string(level)) return level;
  }
  return Error{ErrorKind::kInvalid,
               fmt::format("\"{}\" is not a log level: error, warn, info or debug", text), ""};
}

namespace log {
namespace {

using Json = nlohmann::ordered_json;

struct Sink {
  std::mutex mutex;
  std::atomic<LogLevel> level{LogLevel::kWarn};
  bool console = true;
  int global_rank = 0;
  std::string path;
  int fd = -1;
  bool write_failed = false;
};

/// The process's one sink, as standard error is one. Never destroyed: threads may log to the end.
Sink& sink() {
  static Sink& instance = *new Sink;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  return instance;
}

struct ThreadRank {
  std::optional<int> global_rank;
  Json coord;
};
ThreadRank& thread_rank() {
  thread_local ThreadRank instance;
  return instance;
}

/// JSON has no words for what is not finite.
void name_non_finite(Json& value) {
  if (value.is_number_float()) {
    const double x = value.get<double>();
    if (std::isnan(x)) value = "nan";
    if (std::isinf(x)) value = x > 0 ? "inf" : "-inf";
  } else if (value.is_structured()) {
    for (Json& part : value) name_non_finite(part);
  }
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return dump(value);
}

void write_file(Sink& s, std::string line) {
  line += '\n';
  if (::write(s.fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  if (!s.write_failed) {
    console::write_line(fmt::format("warn log file {}: {}; further lines may be missing", s.path,
                                    std::strerror(errno)));
  }
  s.write_failed = true;
}

}  // namespace

Result<void> configure(const Options& options) {
  int fd = -1;
  if (!options.jsonl_path.empty()) {
    fd = open(options.jsonl_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
      return Error{ErrorKind::kIo,
                   fmt::format("cannot open {}: {}", options.jsonl_path, std::strerror(errno)),
                   options.jsonl_path};
    }
  }
  Sink& s = sink();
  const std::lock_guard lock(s.mutex);
  if (s.fd >= 0) close(s.fd);
  s.fd = fd;
  s.path = options.jsonl_path;
  s.write_failed = false;
  s.level = options.level;
  s.console = options.console;
  s.global_rank = options.global_rank;
  return {};
}

bool enabled(LogLevel level) { return level <= sink().level.load(std::memory_order_relaxed); }

void write(LogLevel level, std::string_view event, const Fields& fields) {
  if (!enabled(level)) return;
  SX_DCHECK(event.find('.') != std::string_view::npos, "event names are noun.verb, got {}", event);
  Sink& s = sink();
  const ThreadRank& rank = thread_rank();
  const std::lock_guard lock(s.mutex);
  const int global_rank = rank.global_rank.value_or(s.global_rank);
  if (s.fd >= 0) {
    write_file(s, json_line(level, event, fields, global_rank, rank.coord, unix_microseconds(),
                            monotonic_microseconds()));
  }
  if (s.console && global_rank == 0) console::write_line(console_line(level, event, fields));
}

void flush() {
  Sink& s = sink();
  const std::lock_guard lock(s.mutex);
  if (s.fd >= 0) fsync(s.fd);
}

RankScope::RankScope(int global_rank, Json coord)
    : previous_rank_(thread_rank().global_rank.value_or(-1)),
      previous_coord_(std::move(thread_rank().coord)) {
  thread_rank().global_rank = global_rank;
  thread_rank().coord = std::move(coord);
}

RankScope::~RankScope() {
  thread_rank().global_rank =
      previous_rank_ < 0 ? std::nullopt : std::optional<int>(previous_rank_);
  thread_rank().coord = std::move(previous_coord_);
}

std::string json_line(LogLevel level, std::string_view event, const Fields& fields, int global_rank,
                      const Json& coord, std::int64_t unix_us, std::int64_t mono_us) {
  Json line;
  line["ts"] = utc_timestamp(unix_us);
  line["mono_us"] = mono_us;
  line["level"] = to_string(level);
  line["event"] = event;
  line["rank"] = global_rank;
  if (!coord.is_null()) line["coord"] = coord;
  for (const auto& [key, value] : fields) line[key] = value;
  name_non_finite(line);
  return dump(line);
}

std::string console_line(LogLevel level, std::string_view event, const Fields& fields) {
  std::string line;
  if (level != LogLevel::kInfo) line = std::string(to_string(level)) + " ";
  line += event;
  for (const auto& [key, value] : fields) line += " · " + key + " " + plain(value);
  return line;
}

namespace detail {
bool is_due(std::atomic<std::int64_t>& last_us, double seconds) {
  const std::int64_t now = monotonic_microseconds();
  std::int64_t last = last_us.load(std::memory_order_relaxed);
  if (last != INT64_MIN && static_cast<double>(now - last) < seconds * 1e6) return false;
  return last_us.compare_exchange_strong(last, now, std::memory_order_relaxed);
}
}  // namespace detail

}  // namespace log
}  // namespace sx
