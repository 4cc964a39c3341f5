#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "sextant/base/exit_code.h"

namespace sx {

/// Another rank failed first, or its process is gone: `what()` is one line that names it and says
/// why. The process leaves with `exit_code()`, that rank's own.
class PeerFailure : public std::runtime_error {
 public:
  PeerFailure(std::int64_t rank, ExitCode exit, const std::string& line)
      : std::runtime_error(line), rank_(rank), exit_(exit) {}
  std::int64_t rank() const { return rank_; }
  ExitCode exit_code() const { return exit_; }

 private:
  std::int64_t rank_;
  ExitCode exit_;
};

}  // namespace sx
