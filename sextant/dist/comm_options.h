#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "sextant/base/units.h"

namespace sx {

/// What holds for all communicators of one rank, on every transport.
struct CommOptions {
  Seconds timeout{600.0};                ///< longest wait in one call (key comm.timeout)
  std::optional<Seconds> first_timeout;  ///< instead, until `CommSession::end_step` was called once
  std::size_t flight_records = 4096;     ///< calls that the flight recorder keeps
  std::filesystem::path flight_folder;   ///< where it is dumped; empty = nowhere
};

}  // namespace sx
