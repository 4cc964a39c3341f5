#include "sextant/dist/comm_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "sextant/base/hash.h"
#include "sextant/dist/communicator.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"

namespace sx {
namespace {

/// Bytes that the rank sends in one call: `Traffic` says how they are counted.
std::int64_t bytes_sent(const detail::CommState& comm, const detail::Descriptor& d) {
  const auto degree = static_cast<std::int64_t>(comm.ranks.size());
  const auto coord = static_cast<std::size_t>(comm.coord);
  const auto element = static_cast<std::int64_t>(c10::elementSize(d.dtype));
  const auto sum = [](const std::vector<std::int64_t>& counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    return total;
  };
  switch (d.op) {
    case Collective::kAllReduce: {
      const std::int64_t own = d.numel / degree + (comm.coord < d.numel % degree ? 1 : 0);
      return 2 * (d.numel - own) * element;
    }
    case Collective::kReduceScatter: {
      const std::int64_t own = d.send_counts.empty() ? d.numel / degree : d.send_counts[coord];
      return (d.numel - own) * element;
    }
    case Collective::kAllGather:
      return (d.recv_counts.empty() ? d.numel * (degree - 1) : sum(d.recv_counts) - d.numel) *
             element;
    case Collective::kAllToAll: return (d.numel - d.send_counts[coord]) * element;
    case Collective::kBroadcast: return comm.coord == d.peer ? 0 : d.numel * element;
    case Collective::kSend: return d.numel * element;
    case Collective::kRecv:
    case Collective::kBarrier: return 0;
  }
  return 0;
}

std::string name_of(const FlightGroup& group) {
  return fmt::format("{} ({}) of ranks {}{}", group.axis, group.purpose,
                     fmt::join(group.ranks, " "),
                     group.instance > 0 ? fmt::format(", number {}", group.instance + 1) : "");
}

/// The same value on every member that agrees, one that others will not have by chance elsewhere.
std::uint64_t mixed(std::uint64_t key, std::uint64_t calls, std::uint64_t hash) {
  const std::uint64_t words[3] = {key, calls, hash};
  return xxh64({reinterpret_cast<const char*>(words), sizeof(words)});
}

/// What is added up over the ranks: the leader of a group takes its value once per other member and
/// the others take it off, so equal values leave zero.
std::uint64_t share(std::uint64_t value, std::size_t members, bool leader) {
  return leader ? value * (members - 1) : std::uint64_t{0} - value;
}

}  // namespace

CommSession::CommSession(std::int64_t global_rank, CommOptions options)
    : options_(std::move(options)), recorder_(global_rank, options_.flight_records) {}

std::shared_ptr<detail::CommState> CommSession::add_communicator(const detail::GroupInfo& group,
                                                                 const char* transport) {
  auto state = std::make_shared<detail::CommState>();
  state->axis = group.axis;
  state->purpose = group.purpose;
  state->ranks = group.global_ranks;
  state->coord = group.coord;
  state->id = recorder_.add_group({.axis = group.axis.to_string(),
                                   .purpose = to_string(group.purpose),
                                   .transport = transport,
                                   .ranks = group.global_ranks});
  const auto instance =
      std::count_if(communicators_.begin(), communicators_.end(), [&](const auto& other) {
        return other->axis == state->axis && other->purpose == state->purpose &&
               other->ranks == state->ranks;
      });
  state->key = xxh64(fmt::format("{} {} {} {}", group.axis.to_string(), to_string(group.purpose),
                                 fmt::join(group.global_ranks, ","), instance));
  communicators_.push_back(state);
  return state;
}

Seconds CommSession::timeout() const {
  return first_step_ && options_.first_timeout ? *options_.first_timeout : options_.timeout;
}

std::uint64_t CommSession::begin_call(detail::CommState& comm, detail::Descriptor& d) {
  const bool p2p = d.op == Collective::kSend || d.op == Collective::kRecv;
  d.sequence = p2p ? comm.p2p_sequence++ : comm.sequence++;
  d.history = comm.history;
  const std::uint64_t number = recorder_.begin(d, comm.id, step_);
  if (!p2p) {
    comm.history = d.next_history(comm.purpose);
    recorder_.note_schedule(comm.id, comm.sequence, comm.history);
  }
  if (comm.ranks.size() > 1) {
    Traffic& traffic = comm.traffic[static_cast<std::size_t>(d.op)];
    ++traffic.calls;
    traffic.bytes += bytes_sent(comm, d);
  }
  max_in_flight_ = std::max(max_in_flight_, ++in_flight_);
  return number;
}

void CommSession::end_call(std::uint64_t number, FlightState state) {
  --in_flight_;
  recorder_.end(number, state);
}

void CommSession::check_schedules(Communicator& control, std::span<const ScheduleCount> counts) {
  // The other ranks of a fake world have made no calls to compare with.
  if (std::string_view(control.capabilities().transport) == "fake") return;
  std::uint64_t value = 0;
  for (const auto& comm : communicators_) {
    if (comm->ranks.size() == 1) continue;
    value += share(mixed(comm->key, comm->sequence, comm->history), comm->ranks.size(),
                   comm->coord == 0);
  }
  for (const ScheduleCount& count : counts) {
    value += share(mixed(xxh64(count.name), static_cast<std::uint64_t>(count.value), 0),
                   static_cast<std::size_t>(control.degree()), control.coord() == 0);
  }
  at::Tensor sum = at::full({1}, static_cast<std::int64_t>(value), at::kLong);
  control.start_all_reduce(sum, ReduceOp::kSum, {.unit = "schedule check"}).wait();
  if (*sum.const_data_ptr<std::int64_t>() != 0) throw_differences(control, counts);
}

void CommSession::throw_differences(Communicator& control,
                                    std::span<const ScheduleCount> counts) const {
  nlohmann::json own = nlohmann::json::object();
  const FlightDump dump = recorder_.snapshot("");
  for (const FlightGroup& group : dump.groups) {
    if (group.ranks.size() > 1) own[name_of(group)] = {group.calls, hex64(group.hash)};
  }
  for (const ScheduleCount& count : counts) own[count.name] = {count.value, ""};
  const std::string text = own.dump();

  const std::int64_t degree = control.degree();
  at::Tensor sizes = at::empty({degree}, at::kLong);
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  control.start_all_gather(sizes, size, {}, {.unit = "schedule sizes"}).wait();
  const auto* p = sizes.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> bytes(p, p + degree);
  std::int64_t total = 0;
  for (const std::int64_t n : bytes) total += n;
  at::Tensor mine = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), text.data(), text.size());
  at::Tensor all = at::empty({total}, at::kByte);
  control.start_all_gather(all, mine, bytes, {.unit = "schedule counts"}).wait();

  // name -> value -> ranks that have it
  std::map<std::string, std::map<std::pair<std::int64_t, std::string>, std::vector<std::int64_t>>>
      by_name;
  const auto* at_byte = static_cast<const char*>(all.const_data_ptr());
  for (std::int64_t coord = 0; coord < degree; ++coord) {
    const std::string part(at_byte,
                           static_cast<std::size_t>(bytes[static_cast<std::size_t>(coord)]));
    at_byte += part.size();
    const nlohmann::json parsed = nlohmann::json::parse(part);
    for (const auto& [name, entry] : parsed.items()) {
      by_name[name][{entry[0].get<std::int64_t>(), entry[1].get<std::string>()}].push_back(
          control.global_ranks()[static_cast<std::size_t>(coord)]);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [name, values] : by_name) {
    if (values.size() == 1) continue;
    std::vector<std::string> parts;
    bool same_number = true;
    for (const auto& [value, ranks] : values) {
      same_number = same_number && value.first == values.begin()->first.first;
      parts.push_back(fmt::format("{} on rank {}", value.first, fmt::join(ranks, ", ")));
    }
    lines.push_back(fmt::format("{}: {}{}", name, fmt::join(parts, "; "),
                                same_number ? " (as many calls, but other ones)" : ""));
  }
  const std::int64_t here = control.global_rank();
  throw DistError(DistFault::kMismatch, control.axis(), Collective::kAllReduce, 0, 8, Seconds{},
                  here,
                  fmt::format("ranks did not make the same calls up to the end of step {}: {}",
                              step_, fmt::join(lines, "; ")));
}

std::vector<TrafficRow> CommSession::traffic() const {
  std::vector<TrafficRow> rows;
  for (const auto& comm : communicators_) {
    for (std::size_t op = 0; op < kNumCollectives; ++op) {
      const Traffic& t = comm->traffic[op];
      if (t.calls == 0) continue;
      const auto same = [&](const TrafficRow& row) {
        return row.axis == comm->axis && row.purpose == comm->purpose &&
               row.op == static_cast<Collective>(op);
      };
      auto row = std::find_if(rows.begin(), rows.end(), same);
      if (row == rows.end()) {
        row = rows.insert(rows.end(), {comm->axis, comm->purpose, static_cast<Collective>(op), {}});
      }
      row->traffic.calls += t.calls;
      row->traffic.bytes += t.bytes;
    }
  }
  return rows;
}

Traffic CommSession::traffic_of(Collective op) const {
  Traffic sum;
  for (const TrafficRow& row : traffic()) {
    if (row.op != op) continue;
    sum.calls += row.traffic.calls;
    sum.bytes += row.traffic.bytes;
  }
  return sum;
}

Traffic CommSession::traffic_of(Collective op, AxisSet axis) const {
  Traffic sum;
  for (const TrafficRow& row : traffic()) {
    if (row.op != op || !(row.axis == axis)) continue;
    sum.calls += row.traffic.calls;
    sum.bytes += row.traffic.bytes;
  }
  return sum;
}

void CommSession::reset_traffic() {
  for (const auto& comm : communicators_) comm->traffic = {};
  max_in_flight_ = in_flight_;
}

bool CommSession::dump(const std::string& reason, bool failure) noexcept {
  try {
    const std::lock_guard lock(dump_mutex_);
    if (options_.flight_folder.empty()) return false;
    if (failed_) return false;  // what led to the first failure stays on disk
    failed_ = failure;
    return write_flight_dump(options_.flight_folder, recorder_.snapshot(reason)).ok();
  } catch (...) {
    return false;
  }
}

}  // namespace sx
