#include "sextant/trace/flight_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sextant/base/hash.h"
#include "sextant/trace/json_text.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "sextant flight 1";

std::uint64_t parse_hex(const std::string& text) {
  if (text.size() != 16) throw std::invalid_argument("a hash has 16 hex digits");
  return std::stoull(text, nullptr, 16);
}

ordered_json to_json(const FlightGroup& g) {
  return {{"pg_id", g.id},        {"axis", g.axis},
          {"purpose", g.purpose}, {"transport", g.transport},
          {"ranks", g.ranks},     {"instance", g.instance},
          {"calls", g.calls},     {"hash", hex64(g.hash)}};
}

FlightGroup group_of(const nlohmann::json& j) {
  return {.id = j.at("pg_id").get<std::int64_t>(),
          .axis = j.at("axis").get<std::string>(),
          .purpose = j.at("purpose").get<std::string>(),
          .transport = j.at("transport").get<std::string>(),
          .ranks = j.at("ranks").get<std::vector<std::int64_t>>(),
          .instance = j.at("instance").get<std::int64_t>(),
          .calls = j.at("calls").get<std::uint64_t>(),
          .hash = parse_hex(j.at("hash").get<std::string>())};
}

ordered_json to_json(const FlightEntry& e) {
  return {{"op_id", e.number},
          {"pg_id", e.group},
          {e.p2p ? "p2p_seq_id" : "collective_seq_id", e.sequence},
          {"profiling_name", e.op},
          {"dtype", e.dtype},
          {"numel", e.numel},
          {"peer", e.peer},
          {"tag", e.tag},
          {"unit", e.unit},
          {"step", e.step},
          {"hash", hex64(e.hash)},
          {"time_created_ns", e.started_ns},
          {"time_completed_ns", e.done_ns},
          {"state", to_string(e.state)}};
}

FlightState state_of(const std::string& text) {
  for (const FlightState state :
       {FlightState::kStarted, FlightState::kDone, FlightState::kFailed}) {
    if (text == to_string(state)) return state;
  }
  throw std::invalid_argument("unknown state");
}

FlightEntry entry_of(const nlohmann::json& j) {
  const bool p2p = j.contains("p2p_seq_id");
  return {.number = j.at("op_id").get<std::uint64_t>(),
          .group = j.at("pg_id").get<std::int64_t>(),
          .sequence = j.at(p2p ? "p2p_seq_id" : "collective_seq_id").get<std::uint64_t>(),
          .op = j.at("profiling_name").get<std::string>(),
          .dtype = j.at("dtype").get<std::string>(),
          .numel = j.at("numel").get<std::int64_t>(),
          .peer = j.at("peer").get<std::int64_t>(),
          .tag = j.at("tag").get<std::int64_t>(),
          .unit = j.at("unit").get<std::string>(),
          .step = j.at("step").get<std::int64_t>(),
          .hash = parse_hex(j.at("hash").get<std::string>()),
          .started_ns = j.at("time_created_ns").get<std::int64_t>(),
          .done_ns = j.at("time_completed_ns").get<std::int64_t>(),
          .state = state_of(j.at("state").get<std::string>()),
          .p2p = p2p};
}

}  // namespace

const char* to_string(FlightState state) {
  switch (state) {
    case FlightState::kStarted: return "started";
    case FlightState::kDone: return "completed";
    case FlightState::kFailed: return "failed";
  }
  return "?";
}

std::string to_json(const FlightDump& dump) {
  ordered_json head = {{"format", kFormat},
                       {"rank", dump.rank},
                       {"reason", dump.reason},
                       {"written_at", dump.written_at},
                       {"clock_ns", dump.clock_ns}};
  std::string text = json_line(head);
  text.pop_back();  // its closing brace: the lists follow, one element a line
  const auto add_list = [&](const char* name, const auto& list) {
    text += fmt::format(",\n\"{}\":[", name);
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += (i == 0 ? "\n" : ",\n") + json_line(to_json(list[i]));
    }
    text += "]";
  };
  add_list("pg_config", dump.groups);
  add_list("entries", dump.entries);
  return text + "}\n";
}

Result<FlightDump> parse_flight_dump(std::string_view text) {
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    if (j.at("format").get<std::string>() != kFormat) {
      return Error{ErrorKind::kCorrupt, fmt::format("not of the format \"{}\"", kFormat), ""};
    }
    FlightDump dump;
    dump.rank = j.at("rank").get<std::int64_t>();
    dump.reason = j.at("reason").get<std::string>();
    dump.written_at = j.at("written_at").get<std::string>();
    dump.clock_ns = j.at("clock_ns").get<std::int64_t>();
    for (const auto& group : j.at("pg_config")) dump.groups.push_back(group_of(group));
    for (const auto& entry : j.at("entries")) dump.entries.push_back(entry_of(entry));
    return dump;
  } catch (const std::exception& e) {
    return Error{ErrorKind::kCorrupt, fmt::format("not a flight record: {}", e.what()), ""};
  }
}

std::string flight_file_name(std::int64_t rank) { return fmt::format("rank-{:05}.json", rank); }

Result<void> write_flight_dump(const fs::path& folder, const FlightDump& dump) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{ErrorKind::kIo, error.message(), folder.string()};
  return write_file_atomic(folder / flight_file_name(dump.rank), to_json(dump));
}

Result<std::vector<FlightDump>> read_flight_dumps(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".json")) files.push_back(it->path());
  }
  if (error) return Error{ErrorKind::kNotFound, error.message(), folder.string()};
  if (files.empty()) {
    return Error{ErrorKind::kNotFound, "no flight records (rank-NNNNN.json)", folder.string()};
  }
  std::vector<FlightDump> dumps;
  for (const fs::path& file : files) {
    const auto text = read_file(file);
    if (!text.ok()) return text.error();
    auto dump = parse_flight_dump(*text);
    if (!dump.ok()) return Error{dump.error().kind, dump.error().message, file.string()};
    dumps.push_back(*std::move(dump));
  }
  std::sort(dumps.begin(), dumps.end(),
            [](const FlightDump& a, const FlightDump& b) { return a.rank < b.rank; });
  return dumps;
}

}  // namespace sx
