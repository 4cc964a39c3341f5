#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sextant/dist/collectives.h"
#include "sextant/dist/comm_options.h"
#include "sextant/dist/flight_recorder.h"
#include "sextant/mesh/axis.h"

namespace sx {

class Communicator;
namespace detail {
struct GroupInfo;
struct Descriptor;
}  // namespace detail

inline constexpr std::size_t kNumCollectives = 8;

/// Calls and bytes of one kind of collective on one communicator, as the sender of one rank sees
/// them: N bytes in the full buffer and W ranks give N(W-1)/W for all_gather, reduce_scatter and
/// all_to_all, 2N(W-1)/W for all_reduce. Where W does not divide N (or counts are uneven) a rank
/// counts N minus its own part, so that the sum over ranks is exact. A broadcast counts N on every
/// rank but the root, a send N, a receive and a barrier nothing. One rank alone counts nothing.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// One row of what a rank has sent.
struct TrafficRow {
  AxisSet axis;
  Purpose purpose = Purpose::kControl;
  Collective op = Collective::kBarrier;
  Traffic traffic;
};

namespace detail {

/// What a session keeps about one communicator.
struct CommState {
  std::uint16_t id = 0;
  AxisSet axis;
  Purpose purpose = Purpose::kControl;
  std::vector<std::int64_t> ranks;  ///< global
  std::int64_t coord = 0;
  std::uint64_t key = 0;           ///< of axis, purpose, ranks and instance: same on all members
  std::uint64_t sequence = 0;      ///< of the next collective
  std::uint64_t p2p_sequence = 0;  ///< of the next send or receive
  std::uint64_t history = 0;       ///< schedule hash
  std::array<Traffic, kNumCollectives> traffic{};
};

}  // namespace detail

/// Something counted that must agree on all ranks ("microbatches", 4).
struct ScheduleCount {
  std::string name;
  std::int64_t value = 0;
};

/// What the communicators of one rank share, whatever the transport: the flight recorder, the
/// schedule hashes, time-outs, and the counts of what was sent. A communicator made from another
/// one belongs to the same session.
///
/// Threads: used by its rank's thread; `dump` and `recorder().snapshot` by any thread.
class CommSession {
 public:
  explicit CommSession(std::int64_t global_rank, CommOptions options = {});

  FlightRecorder& recorder() { return recorder_; }
  const CommOptions& options() const { return options_; }
  /// For ranks that learn where their run lies after they have come together. Before other threads
  /// dump.
  void set_flight_folder(std::filesystem::path folder) {
    const std::lock_guard lock(dump_mutex_);
    options_.flight_folder = std::move(folder);
  }

  /// Steps are named in flight records; `CommOptions::first_timeout` ends with the first of them.
  void begin_step(std::int64_t step) { step_ = step; }
  void end_step() { first_step_ = false; }
  /// Compares over `control` (all ranks of the world) what the ranks have called: number of
  /// collectives and schedule hash of every communicator, and `counts`. One 8-byte sum; only when
  /// that is not zero do the ranks exchange names.
  /// Errors: DistError (kMismatch) that lists the counts of every rank.
  void check_schedules(Communicator& control, std::span<const ScheduleCount> counts = {});

  /// By communicator's axis and purpose and by call, in order of first use; only rows with calls.
  std::vector<TrafficRow> traffic() const;
  /// Sum over rows of this call (and axis).
  Traffic traffic_of(Collective op) const;
  Traffic traffic_of(Collective op, AxisSet axis) const;
  void reset_traffic();
  /// Most calls that were in flight at one time.
  std::int64_t max_in_flight() const { return max_in_flight_; }

  /// Writes `flight_folder`/rank-NNNNN.json; the first failure's dump stays. False when there is no
  /// folder, or it cannot be written. From any thread.
  bool dump(const std::string& reason, bool failure = false) noexcept;

  // For Communicator and Handle.
  std::shared_ptr<detail::CommState> add_communicator(const detail::GroupInfo& group,
                                                      const char* transport);
  Seconds timeout() const;
  /// Fills in the call's place (`sequence`, `history`); returns its number in the flight record.
  std::uint64_t begin_call(detail::CommState& comm, detail::Descriptor& descriptor);
  void end_call(std::uint64_t number, FlightState state);

 private:
  CommOptions options_;
  FlightRecorder recorder_;
  std::int64_t step_ = 0;
  bool first_step_ = true;
  void throw_differences(Communicator& control, std::span<const ScheduleCount> counts) const;

  std::int64_t in_flight_ = 0;
  std::int64_t max_in_flight_ = 0;
  std::vector<std::shared_ptr<detail::CommState>> communicators_;
  std::mutex dump_mutex_;
  bool failed_ = false;
};

}  // namespace sx
