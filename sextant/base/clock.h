#pragma once

#include <cstdint>
#include <string>

namespace sx {

/// Microseconds of a clock that never jumps; its zero has no meaning.
std::int64_t monotonic_microseconds();
/// Microseconds since 1970-01-01 UTC.
std::int64_t unix_microseconds();
/// "2026-11-30T05:12:03.123456Z".
std::string utc_timestamp(std::int64_t unix_us);
/// "20261130-051203", for names of folders.
std::string utc_compact(std::int64_t unix_us);

}  // namespace sx
