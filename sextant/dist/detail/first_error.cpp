#include "sextant/dist/detail/first_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace sx::detail {

std::string WorldFault::to_text() const {
  return fmt::format("{} {} {}\n{}", origin_rank, static_cast<int>(exit), static_cast<int>(fault),
                     message);
}

WorldFault WorldFault::from_text(const std::string& text) {
  WorldFault fault;
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) {
    fault.message = text;
    return fault;
  }
  const char* at = text.c_str();
  char* next = nullptr;
  fault.origin_rank = std::strtol(at, &next, 10);
  fault.exit = static_cast<ExitCode>(std::strtol(next, &next, 10) & 0xff);
  const long kind = std::strtol(next, &next, 10);
  fault.fault =
      static_cast<DistFault>(std::clamp(kind, 0L, static_cast<long>(DistFault::kAborted)));
  fault.message = text.substr(end + 1);
  return fault;
}

std::string WorldFault::line() const {
  const std::string first = message.substr(0, message.find('\n'));
  return fault == DistFault::kPeerLost
             ? first
             : fmt::format("rank {} failed first: {}", origin_rank, first);
}

}  // namespace sx::detail
