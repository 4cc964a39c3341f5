#include "sextant/dist/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "sextant/base/check.h"
#include "sextant/base/clock.h"
#include "sextant/dist/detail/descriptor.h"

namespace sx {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

/// Where a word holds several values: shift and width in bits.
struct Field {
  unsigned shift;
  unsigned bits;
  std::uint64_t put(std::uint64_t value) const {
    return (value & ((std::uint64_t{1} << bits) - 1)) << shift;
  }
  std::uint64_t get(std::uint64_t word) const {
    return (word >> shift) & ((std::uint64_t{1} << bits) - 1);
  }
};

constexpr Field kSequence{0, 32}, kGroup{32, 16}, kOp{48, 4}, kReduce{52, 4}, kDtype{56, 8};
constexpr Field kUnit{0, 24}, kStep{24, 40};
constexpr Field kState{0, 4}, kPeer{4, 24}, kTag{28, 36};

bool is_reduction(Collective op) {
  return op == Collective::kAllReduce || op == Collective::kReduceScatter;
}
bool is_p2p(Collective op) { return op == Collective::kSend || op == Collective::kRecv; }

}  // namespace

FlightRecorder::FlightRecorder(std::int64_t global_rank, std::size_t records)
    : global_rank_(global_rank),
      ring_(std::bit_ceil(std::max<std::size_t>(records, 16))),
      mask_(ring_.size() - 1) {}

std::uint16_t FlightRecorder::add_group(FlightGroup group) {
  const std::lock_guard lock(names_mutex_);
  SX_CHECK(groups_.size() < 65'536, "more than 65,536 communicators on rank {}", global_rank_);
  const auto id = static_cast<std::uint16_t>(groups_.size());
  group.id = id;
  group.instance = std::count_if(groups_.begin(), groups_.end(), [&](const FlightGroup& other) {
    return other.axis == group.axis && other.purpose == group.purpose && other.ranks == group.ranks;
  });
  groups_.push_back(std::move(group));
  schedules_.push_back(std::make_unique<Schedule>());
  return id;
}

std::uint32_t FlightRecorder::unit_id(const std::string& unit) {
  if (unit.empty()) return 0;
  const auto found = unit_ids_.find(unit);
  if (found != unit_ids_.end()) return found->second;
  const std::lock_guard lock(names_mutex_);
  const auto id = static_cast<std::uint32_t>(units_.size());
  units_.push_back(unit);
  unit_ids_.emplace(unit, id);
  return id;
}

std::uint64_t FlightRecorder::begin(const detail::Descriptor& d, std::uint16_t group,
                                    std::int64_t step) {
  const std::uint64_t number = next_.load(std::memory_order_relaxed);
  auto& words = ring_[number & mask_].words;
  // Release: a reader that sees one of these values also sees that the record is being written.
  const auto set = [&](Word word, std::uint64_t value) {
    words[word].store(value, std::memory_order_release);
  };
  words[kNumber].store(0, std::memory_order_relaxed);
  set(kCall, kSequence.put(d.sequence) | kGroup.put(group) |
                 kOp.put(static_cast<std::uint64_t>(d.op)) |
                 kReduce.put(static_cast<std::uint64_t>(d.reduce)) |
                 kDtype.put(static_cast<std::uint64_t>(d.dtype)));
  set(kNumel, static_cast<std::uint64_t>(d.numel));
  set(kHash, d.history);
  set(kStarted, now_ns());
  set(kDone, 0);
  set(kUnitStep, kUnit.put(unit_id(d.unit)) | kStep.put(static_cast<std::uint64_t>(step)));
  set(kStatePeerTag, kState.put(static_cast<std::uint64_t>(FlightState::kStarted)) |
                         kPeer.put(static_cast<std::uint64_t>(d.peer)) |
                         kTag.put(static_cast<std::uint64_t>(d.tag)));
  words[kNumber].store(number + 1, std::memory_order_release);
  next_.store(number + 1, std::memory_order_release);
  return number;
}

void FlightRecorder::note_schedule(std::uint16_t group, std::uint64_t calls, std::uint64_t hash) {
  Schedule& schedule = *schedules_[group];
  schedule.calls.store(calls, std::memory_order_relaxed);
  schedule.hash.store(hash, std::memory_order_relaxed);
}

void FlightRecorder::end(std::uint64_t number, FlightState state) {
  auto& words = ring_[number & mask_].words;
  if (words[kNumber].load(std::memory_order_relaxed) != number + 1) return;  // overwritten
  const std::uint64_t old = words[kStatePeerTag].load(std::memory_order_relaxed);
  words[kDone].store(now_ns(), std::memory_order_relaxed);
  words[kStatePeerTag].store(
      (old & ~kState.put(15)) | kState.put(static_cast<std::uint64_t>(state)),
      std::memory_order_relaxed);
}

bool FlightRecorder::read(std::uint64_t number, FlightEntry& entry) const {
  const auto& words = ring_[number & mask_].words;
  if (words[kNumber].load(std::memory_order_acquire) != number + 1) return false;
  std::array<std::uint64_t, 8> copy{};
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = words[i].load(std::memory_order_acquire);
  if (words[kNumber].load(std::memory_order_relaxed) != number + 1) return false;
  const auto op = static_cast<Collective>(kOp.get(copy[kCall]));
  entry.number = number;
  entry.group = static_cast<std::int64_t>(kGroup.get(copy[kCall]));
  entry.sequence = kSequence.get(copy[kCall]);
  entry.op = to_string(op);
  if (is_reduction(op)) {
    entry.op += std::string(" ") + to_string(static_cast<ReduceOp>(kReduce.get(copy[kCall])));
  }
  entry.p2p = is_p2p(op);
  if (op != Collective::kBarrier) {
    entry.dtype = c10::toString(static_cast<at::ScalarType>(kDtype.get(copy[kCall])));
  }
  entry.numel = static_cast<std::int64_t>(copy[kNumel]);
  entry.hash = copy[kHash];
  entry.started_ns = static_cast<std::int64_t>(copy[kStarted]);
  entry.done_ns = static_cast<std::int64_t>(copy[kDone]);
  const auto unit = static_cast<std::size_t>(kUnit.get(copy[kUnitStep]));
  entry.unit = unit < units_.size() ? units_[unit] : std::string("?");
  entry.step = static_cast<std::int64_t>(kStep.get(copy[kUnitStep]));
  entry.state = static_cast<FlightState>(kState.get(copy[kStatePeerTag]));
  entry.peer = entry.p2p || op == Collective::kBroadcast
                   ? static_cast<std::int64_t>(kPeer.get(copy[kStatePeerTag]))
                   : -1;
  entry.tag = static_cast<std::int64_t>(kTag.get(copy[kStatePeerTag]));
  return true;
}

FlightDump FlightRecorder::snapshot(const std::string& reason) const {
  FlightDump dump;
  dump.rank = global_rank_;
  dump.reason = reason;
  dump.written_at = utc_timestamp(unix_microseconds());
  dump.clock_ns = static_cast<std::int64_t>(now_ns());
  const std::lock_guard lock(names_mutex_);
  dump.groups = groups_;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    dump.groups[i].calls = schedules_[i]->calls.load(std::memory_order_relaxed);
    dump.groups[i].hash = schedules_[i]->hash.load(std::memory_order_relaxed);
  }
  const std::uint64_t end = next_.load(std::memory_order_acquire);
  const std::uint64_t begin = end > ring_.size() ? end - ring_.size() : 0;
  dump.entries.reserve(end - begin);
  for (std::uint64_t number = begin; number < end; ++number) {
    FlightEntry entry;
    if (read(number, entry)) dump.entries.push_back(std::move(entry));
  }
  return dump;
}

}  // namespace sx
