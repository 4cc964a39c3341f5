#pragma once

#include <cstdint>
#include <string>

#include "sextant/base/exit_code.h"
#include "sextant/dist/dist_error.h"

namespace sx::detail {

/// What ends a world, as every rank reports it.
struct WorldFault {
  DistFault fault = DistFault::kAborted;
  std::int64_t origin_rank = 0;
  ExitCode exit = ExitCode::kPeer;
  std::string message;

  /// For the store, and back. A text that is none gives a fault with that message.
  std::string to_text() const;
  static WorldFault from_text(const std::string& text);
  /// "rank 5 failed first: ...", or what was noticed of a lost rank.
  std::string line() const;
};

/// Key of the first failure of a run: set once.
inline constexpr const char* kFirstErrorKey = "error/first";

}  // namespace sx::detail
