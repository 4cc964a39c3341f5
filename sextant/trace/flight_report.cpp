#include "sextant/trace/flight_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace sx {
namespace {

using GroupKey = std::tuple<std::string, std::string, std::vector<std::int64_t>, std::int64_t>;

/// One rank's part in a communicator: its collectives that are still in the ring, by place.
struct Member {
  std::int64_t rank = 0;
  FlightGroup group;
  std::map<std::uint64_t, const FlightEntry*> calls;
};

std::string describe(const FlightEntry& e) {
  std::string text = e.op;
  if (!e.dtype.empty()) text += fmt::format(" {} x {}", e.dtype, e.numel);
  if (e.peer >= 0) text += fmt::format(", root {}", e.peer);
  if (!e.unit.empty()) text += fmt::format(", unit \"{}\"", e.unit);
  return text;
}

/// Whether two ranks' calls at one place are the same, as far as a record tells. The own part of an
/// all_gather or all_to_all may differ in size.
bool alike(const FlightEntry& a, const FlightEntry& b) {
  const bool own_size = a.op == "all_gather" || a.op == "all_to_all";
  return a.op == b.op && a.dtype == b.dtype && a.unit == b.unit && a.hash == b.hash &&
         a.peer == b.peer && (own_size || a.numel == b.numel);
}

void add_side(std::vector<FlightSide>& sides, const std::string& call, const std::string& state,
              std::int64_t rank) {
  for (FlightSide& side : sides) {
    if (side.call == call && side.state == state) return side.ranks.push_back(rank);
  }
  sides.push_back({call, state, {rank}});
}

FlightDivergence diverge(FlightDivergence::Kind kind, const std::vector<Member>& members,
                         std::uint64_t place) {
  FlightDivergence found{.kind = kind, .group = members.front().group, .sequence = place};
  bool first = true;
  for (const Member& member : members) {
    const auto call = member.calls.find(place);
    if (call == member.calls.end()) {
      add_side(found.sides,
               place >= member.group.calls ? std::string("no call") : "a call no longer recorded",
               "", member.rank);
      continue;
    }
    const FlightEntry& e = *call->second;
    const std::string history = kind == FlightDivergence::Kind::kDifferent
                                    ? fmt::format(" (after {:016x})", e.hash)
                                    : std::string();
    add_side(found.sides, describe(e) + history, to_string(e.state), member.rank);
    if (first || e.started_ns < found.started_ns) found.started_ns = e.started_ns;
    if (first || e.step < found.step) found.step = e.step;
    first = false;
  }
  return found;
}

std::optional<FlightDivergence> first_divergence(const std::vector<Member>& members) {
  std::set<std::uint64_t> places;
  for (const Member& member : members) {
    for (const auto& [place, entry] : member.calls) places.insert(place);
  }
  for (const std::uint64_t place : places) {
    const FlightEntry* seen = nullptr;
    bool missing = false;
    bool unfinished = false;
    for (const Member& member : members) {
      const auto call = member.calls.find(place);
      if (call == member.calls.end()) {
        missing = missing || place >= member.group.calls;
        continue;
      }
      if (seen != nullptr && !alike(*seen, *call->second)) {
        return diverge(FlightDivergence::Kind::kDifferent, members, place);
      }
      seen = call->second;
      unfinished = unfinished || call->second->state != FlightState::kDone;
    }
    if (missing) return diverge(FlightDivergence::Kind::kMissing, members, place);
    if (unfinished) return diverge(FlightDivergence::Kind::kUnfinished, members, place);
  }
  return std::nullopt;
}

const char* name_of(FlightDivergence::Kind kind) {
  switch (kind) {
    case FlightDivergence::Kind::kDifferent: return "different calls";
    case FlightDivergence::Kind::kMissing: return "ranks that have not come";
    case FlightDivergence::Kind::kUnfinished: return "not done everywhere";
  }
  return "?";
}

std::string place_of(const FlightDivergence& d) {
  return fmt::format("{} ({}) of ranks {}, call {}, step {}: {}", d.group.axis, d.group.purpose,
                     fmt::join(d.group.ranks, " "), d.sequence, d.step, name_of(d.kind));
}

}  // namespace

FlightReport compare_flights(const std::vector<FlightDump>& dumps) {
  FlightReport report;
  std::map<GroupKey, std::vector<Member>> groups;
  std::map<std::string, std::vector<std::int64_t>> reasons;
  std::set<std::int64_t> expected;
  for (const FlightDump& dump : dumps) {
    report.ranks.push_back(dump.rank);
    reasons[dump.reason].push_back(dump.rank);
    std::map<std::int64_t, Member> own;
    for (const FlightGroup& group : dump.groups) {
      expected.insert(group.ranks.begin(), group.ranks.end());
      own[group.id] = {.rank = dump.rank, .group = group};
    }
    for (const FlightEntry& entry : dump.entries) {
      const auto member = own.find(entry.group);
      if (!entry.p2p && member != own.end()) member->second.calls[entry.sequence] = &entry;
    }
    for (auto& [id, member] : own) {
      const FlightGroup& g = member.group;
      groups[{g.axis, g.purpose, g.ranks, g.instance}].push_back(std::move(member));
    }
  }
  for (const std::int64_t rank : expected) {
    if (std::find(report.ranks.begin(), report.ranks.end(), rank) == report.ranks.end()) {
      report.missing.push_back(rank);
    }
  }
  for (const auto& [reason, ranks] : reasons) {
    report.reasons.push_back(fmt::format("rank {}: {}", fmt::join(ranks, ", "), reason));
  }
  for (const auto& [key, members] : groups) {
    if (auto found = first_divergence(members)) report.divergences.push_back(*std::move(found));
  }
  std::sort(report.divergences.begin(), report.divergences.end(),
            [](const FlightDivergence& a, const FlightDivergence& b) {
              return std::tie(a.step, a.started_ns) < std::tie(b.step, b.started_ns);
            });
  return report;
}

std::string to_text(const FlightReport& report) {
  std::string text = fmt::format("flight records of rank {}\n", fmt::join(report.ranks, ", "));
  if (!report.missing.empty()) {
    text += fmt::format("no record of rank {}\n", fmt::join(report.missing, ", "));
  }
  for (const std::string& reason : report.reasons) text += "  " + reason + "\n";
  if (report.divergences.empty()) return text + "the ranks made the same calls, and all are done\n";
  const FlightDivergence& first = report.divergences.front();
  text += "first divergence: " + place_of(first) + "\n";
  for (const FlightSide& side : first.sides) {
    text += fmt::format("  rank {}: {}{}\n", fmt::join(side.ranks, ", "), side.call,
                        side.state.empty() ? std::string() : ", " + side.state);
  }
  for (std::size_t i = 1; i < report.divergences.size(); ++i) {
    text += "later: " + place_of(report.divergences[i]) + "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const FlightReport& report) {
  nlohmann::ordered_json divergences = nlohmann::ordered_json::array();
  for (const FlightDivergence& d : report.divergences) {
    nlohmann::ordered_json sides = nlohmann::ordered_json::array();
    for (const FlightSide& side : d.sides) {
      sides.push_back({{"ranks", side.ranks}, {"call", side.call}, {"state", side.state}});
    }
    divergences.push_back({{"kind", name_of(d.kind)},
                           {"axis", d.group.axis},
                           {"purpose", d.group.purpose},
                           {"members", d.group.ranks},
                           {"call", d.sequence},
                           {"step", d.step},
                           {"sides", sides}});
  }
  return {{"ranks", report.ranks},
          {"missing", report.missing},
          {"reasons", report.reasons},
          {"divergences", divergences}};
}

}  // namespace sx
