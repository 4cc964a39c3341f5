#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/trace/flight_dump.h"

namespace sx {

/// What some ranks did at one place of a communicator.
struct FlightSide {
  std::string call;   ///< "all_reduce sum Float x 1024, unit \"layers.1\"", or "no call"
  std::string state;  ///< of the call: "started", "completed", "failed"; empty for "no call"
  std::vector<std::int64_t> ranks;
};

/// A place where the ranks of a communicator are not alike.
struct FlightDivergence {
  enum class Kind : std::uint8_t {
    kDifferent,   ///< two ranks made different calls
    kMissing,     ///< some ranks have not come to a call that others made
    kUnfinished,  ///< all came, and not all are done
  };
  Kind kind = Kind::kDifferent;
  FlightGroup group;           ///< as the lowest rank names it
  std::uint64_t sequence = 0;  ///< place on the communicator, from 0
  std::int64_t step = 0;
  std::int64_t started_ns = 0;  ///< when the first rank started the call
  std::vector<FlightSide> sides;
};

/// What the flight records of a run say together.
struct FlightReport {
  std::vector<std::int64_t> ranks;    ///< that left a record
  std::vector<std::int64_t> missing;  ///< members of communicators that left none
  std::vector<std::string> reasons;   ///< why records were written, each once with its ranks
  /// The first one of every communicator that has one; by step and start, so the first of all is at
  /// the front. Clocks of different hosts are not comparable; steps are.
  std::vector<FlightDivergence> divergences;
};

/// Lines records up by communicator and place. Records that a rank's ring no longer holds are
/// passed over.
FlightReport compare_flights(const std::vector<FlightDump>& dumps);

/// For people: the first divergence in full, the others in a line each.
std::string to_text(const FlightReport& report);
nlohmann::ordered_json to_json(const FlightReport& report);

}  // namespace sx
