#pragma once

#include <optional>
#include <string>

#include "sextant/base/signals.h"

namespace sx {

/// When signals ask for the flight records: every SIGUSR2, and once when a stop is asked for.
/// One per process, asked by one thread.
class SignalDumps {
 public:
  /// The reason for a dump now, if there is one.
  std::optional<std::string> take() {
    if (!stop_seen_ && signals::stop_requested()) {
      stop_seen_ = true;
      return "a signal asked for a stop";
    }
    if (signals::take_dump_request()) return "a signal asked for a dump";
    return std::nullopt;
  }

 private:
  bool stop_seen_ = signals::stop_requested();
};

}  // namespace sx
