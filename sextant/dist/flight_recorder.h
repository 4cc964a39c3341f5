#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sextant/trace/flight_dump.h"

namespace sx {

namespace detail {
struct Descriptor;
}

/// The last calls of one rank, kept in a ring of 64-byte records.
///
/// Always on: a call costs two readings of the clock and eight stores. Nothing is allocated after a
/// unit's name has been seen once.
///
/// Threads: `begin` and `end` by the rank's own thread; `snapshot` by any thread at any time.
class FlightRecorder {
 public:
  /// Keeps the last `records` calls (rounded up to a power of two, at least 16).
  FlightRecorder(std::int64_t global_rank, std::size_t records);

  /// Names a communicator; its number is what `begin` takes.
  std::uint16_t add_group(FlightGroup group);
  /// A call starts; returns its number, counted from 0 over all groups of the rank.
  std::uint64_t begin(const detail::Descriptor& descriptor, std::uint16_t group, std::int64_t step);
  /// `calls` and `hash` of the group after the call.
  void note_schedule(std::uint16_t group, std::uint64_t calls, std::uint64_t hash);
  void end(std::uint64_t number, FlightState state);

  std::int64_t global_rank() const { return global_rank_; }
  std::uint64_t num_calls() const { return next_.load(std::memory_order_relaxed); }
  FlightDump snapshot(const std::string& reason) const;

 private:
  /// Words of one record; all atomic, since a dump may read while the owner writes.
  enum Word : std::size_t {
    kNumber,
    kCall,
    kNumel,
    kHash,
    kStarted,
    kDone,
    kUnitStep,
    kStatePeerTag
  };
  struct alignas(64) Record {
    std::array<std::atomic<std::uint64_t>, 8> words{};
  };
  static_assert(sizeof(Record) == 64);
  struct Schedule {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> hash{0};
  };

  std::uint32_t unit_id(const std::string& unit);
  bool read(std::uint64_t number, FlightEntry& entry) const;

  std::int64_t global_rank_;
  std::vector<Record> ring_;
  std::uint64_t mask_;
  std::atomic<std::uint64_t> next_{0};
  std::map<std::string, std::uint32_t, std::less<>> unit_ids_;  // written by the owner under names_
  mutable std::mutex names_mutex_;
  std::vector<std::string> units_{std::string()};
  std::vector<FlightGroup> groups_;
  std::vector<std::unique_ptr<Schedule>> schedules_;
};

}  // namespace sx
