#include "sextant/base/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

namespace sx {
namespace {

std::tm utc_calendar(std::int64_t unix_us) {
  const auto seconds = static_cast<std::time_t>(unix_us / 1'000'000);
  std::tm calendar{};
  gmtime_r(&seconds, &calendar);
  return calendar;
}

template <class Clock>
std::int64_t microseconds_of() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t monotonic_microseconds() { return microseconds_of<std::chrono::steady_clock>(); }
std::int64_t unix_microseconds() { return microseconds_of<std::chrono::system_clock>(); }

std::string utc_timestamp(std::int64_t unix_us) {
  const std::tm t = utc_calendar(unix_us);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, unix_us % 1'000'000);
}

std::string utc_compact(std::int64_t unix_us) {
  const std::tm t = utc_calendar(unix_us);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace sx
