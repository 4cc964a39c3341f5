#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// A communicator as one rank's flight record names it.
struct FlightGroup {
  std::int64_t id = 0;  ///< of this rank, in order of creation
  std::string axis;
  std::string purpose;
  std::string transport;
  std::vector<std::int64_t> ranks;  ///< global, ascending
  std::int64_t instance = 0;        ///< how many of the same axis, purpose and ranks came before
  std::uint64_t calls = 0;          ///< collectives started on it
  std::uint64_t hash = 0;           ///< schedule hash after them
  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
};

enum class FlightState : std::uint8_t { kStarted, kDone, kFailed };
const char* to_string(FlightState state);

/// One call of one rank.
struct FlightEntry {
  std::uint64_t number = 0;    ///< among all calls of the rank
  std::int64_t group = 0;      ///< FlightGroup::id
  std::uint64_t sequence = 0;  ///< among the collectives (or the sends and receives) of the group
  std::string op;              ///< "all_reduce sum"
  std::string dtype;
  std::int64_t numel = 0;
  std::int64_t peer = -1;  ///< coord: root, or other end of send and recv; -1 where there is none
  std::int64_t tag = 0;
  std::string unit;
  std::int64_t step = 0;
  std::uint64_t hash = 0;  ///< schedule hash of the group before this call
  std::int64_t started_ns = 0;
  std::int64_t done_ns = 0;  ///< 0 until `wait()` has returned or thrown
  FlightState state = FlightState::kStarted;
  bool p2p = false;
  friend bool operator==(const FlightEntry&, const FlightEntry&) = default;
};

/// The last calls of one rank: what `<run>/flight/rank-NNNNN.json` holds. Its form keeps close to
/// the flight recorder of PyTorch (`entries` with `pg_id`, `collective_seq_id`, `op_id`,
/// `profiling_name`, `state`, times), so that one way to think serves both.
struct FlightDump {
  std::int64_t rank = 0;
  std::string reason;
  std::string written_at;     ///< UTC
  std::int64_t clock_ns = 0;  ///< the clock of the entries when the dump was taken
  std::vector<FlightGroup> groups;
  std::vector<FlightEntry> entries;  ///< oldest first
  friend bool operator==(const FlightDump&, const FlightDump&) = default;
};

std::string to_json(const FlightDump& dump);
/// Errors: kCorrupt.
Result<FlightDump> parse_flight_dump(std::string_view json);

/// "rank-00005.json".
std::string flight_file_name(std::int64_t rank);
/// Writes `folder`/rank-NNNNN.json, making the folder. Errors: kIo.
Result<void> write_flight_dump(const fs::path& folder, const FlightDump& dump);
/// All dumps of a folder in order of ranks. Errors: kNotFound when there is none, kCorrupt, kIo.
Result<std::vector<FlightDump>> read_flight_dumps(const fs::path& folder);

}  // namespace sx
