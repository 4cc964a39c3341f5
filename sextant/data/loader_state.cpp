#include "sextant/data/loader_state.h"

#include <fmt/format.h>

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

Error bad(const std::string& message) { return {ErrorKind::kCorrupt, message, "loader state"}; }

/// A whole number >= 0 (in memory nlohmann keeps small ones as signed).
bool is_position(const Json& value) {
  return value.is_number_unsigned() ||
         (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}

/// Reads fields of one object; the first fault is kept and later reads do nothing.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  const Json* find(const char* name, bool needed = true) {
    const auto at = json_.find(name);
    if (at != json_.end()) return &*at;
    if (needed) fail(fmt::format("field {} is missing", name));
    return nullptr;
  }
  void read(const char* name, std::uint64_t& out, std::uint64_t at_least = 0) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!is_position(*value)) return fail(fmt::format("{} is no whole number >= 0", name));
    out = value->get<std::uint64_t>();
    if (out < at_least) fail(fmt::format("{} = {} is below {}", name, out, at_least));
  }
  void read(const char* name, std::string& out, bool needed = true) {
    const Json* value = find(name, needed);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(fmt::format("{} is no text", name));
    out = value->get<std::string>();
  }
  void read_hash(const char* name, std::string& out) {
    read(name, out);
    const bool hex = out.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex || (!out.empty() && out.size() != 32)) {
      fail(fmt::format("{} is not 32 hex digits", name));
    }
  }
  void fail(const std::string& message) {
    if (!error_) error_ = bad(message);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json& json_;
  std::optional<Error> error_;
};

void read_weights(Fields& fields, LoaderState& state) {
  const Json* list = fields.find("weights_history");
  if (list == nullptr) return;
  if (!list->is_array()) return fields.fail("weights_history is no list");
  for (const Json& entry : *list) {
    if (!entry.is_object() || !entry.contains("position") || !is_position(entry["position"]) ||
        !entry.contains("weights") || !entry["weights"].is_array()) {
      return fields.fail("an entry of weights_history lacks position or weights");
    }
    LoaderState::WeightChange change{entry["position"].get<std::uint64_t>(), {}};
    for (const Json& weight : entry["weights"]) {
      if (!is_position(weight)) return fields.fail("a weight is no whole number >= 0");
      change.weights.push_back(weight.get<std::uint64_t>());
    }
    if (!state.weights_history.empty() && change.position < state.weights_history.back().position) {
      return fields.fail("weights_history does not ascend");
    }
    state.weights_history.push_back(std::move(change));
  }
}

void read_skips(Fields& fields, LoaderState& state) {
  const Json* list = fields.find("skips");
  if (list == nullptr) return;
  if (!list->is_array()) return fields.fail("skips is no list");
  for (const Json& range : *list) {
    if (!range.is_array() || range.size() != 2 || !is_position(range[0]) ||
        !is_position(range[1])) {
      return fields.fail("a range of skips is not [first, last)");
    }
    const std::pair<std::uint64_t, std::uint64_t> pair{range[0].get<std::uint64_t>(),
                                                       range[1].get<std::uint64_t>()};
    if (pair.first >= pair.second ||
        (!state.skips.empty() && pair.first < state.skips.back().second)) {
      return fields.fail("skips are empty, overlap or do not ascend");
    }
    state.skips.push_back(pair);
  }
}

}  // namespace

Json LoaderState::to_json() const {
  Json json;
  json["version"] = kVersion;
  json["mode"] = mode;
  json["plan_hash"] = plan_hash;
  json["position"] = position;
  json["seed"] = seed;
  json["unit"] = unit;
  json["block_tokens"] = block_tokens;
  json["seq_len"] = seq_len;
  json["weights_history"] = Json::array();
  for (const WeightChange& change : weights_history) {
    json["weights_history"].push_back({{"position", change.position}, {"weights", change.weights}});
  }
  json["skips"] = Json::array();
  for (const auto& [first, last] : skips) json["skips"].push_back(Json::array({first, last}));
  json["pack"] = {{"window", pack.window}, {"given", pack.given}};
  json["consumed_hash"] = consumed_hash;
  if (samples) json["samples"] = *samples;
  if (!torch_version.empty()) json["torch_version"] = torch_version;
  return json;
}

Result<LoaderState> LoaderState::from_json(const Json& json) {
  if (!json.is_object()) return bad("not an object");
  Fields fields(json);
  std::uint64_t version = 0;
  fields.read("version", version);
  if (!fields.error() && version != kVersion) {
    return bad(fmt::format("version {}, this program reads {}", version, kVersion));
  }
  LoaderState state;
  fields.read("mode", state.mode);
  if (state.mode != "native" && state.mode != "megatron") fields.fail("mode is native or megatron");
  fields.read_hash("plan_hash", state.plan_hash);
  fields.read("position", state.position);
  fields.read("seed", state.seed);
  fields.read("unit", state.unit);
  if (state.unit != "block" && state.unit != "document") fields.fail("unit is block or document");
  fields.read("block_tokens", state.block_tokens, 1);
  fields.read("seq_len", state.seq_len, 1);
  read_weights(fields, state);
  read_skips(fields, state);
  if (const Json* pack = fields.find("pack"); pack != nullptr && pack->is_object()) {
    Fields inner(*pack);
    inner.read("window", state.pack.window);
    inner.read("given", state.pack.given);
    if (inner.error()) fields.fail(inner.error()->message);
  } else if (pack != nullptr) {
    fields.fail("pack is no object");
  }
  fields.read_hash("consumed_hash", state.consumed_hash);
  if (json.contains("samples")) fields.read("samples", state.samples.emplace());
  fields.read("torch_version", state.torch_version, false);
  if (fields.error()) return *fields.error();
  return state;
}

Result<LoaderState> LoaderState::parse(std::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return bad("not JSON");
  return from_json(json);
}

}  // namespace sx
