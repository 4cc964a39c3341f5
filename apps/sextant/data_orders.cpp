// Sub-verbs that look at the order of a run: build, order, where, verify.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "apps/program/program.h"
#include "apps/sextant/data_commands.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/fs.h"
#include "sextant/data/megatron_dataset.h"
#include "sextant/data/order_lookup.h"
#include "sextant/data/recipe_data.h"
#include "sextant/recipe/load.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

struct OrderOfRun {
  RecipeData data;
  OrderLookup lookup;
};

OrderOfRun open_order(const Recipe& recipe) {
  RecipeData data = open_recipe_data(recipe);
  LoaderOptions options = loader_options(recipe, data, 0, 1);
  OrderLookup lookup = take_data(OrderLookup::make(data.train, options));
  return {std::move(data), std::move(lookup)};
}

Json describe(const MegatronDataset& dataset, const char* split) {
  Json json{{"split", split}, {"samples", dataset.size()}, {"members", Json::array()}};
  const std::vector<std::uint64_t> taken = [&] {
    std::vector<std::uint64_t> counts(dataset.members().size(), 0);
    for (std::uint64_t k = 0; k < dataset.size(); ++k) ++counts[take_data(dataset.at(k)).member];
    return counts;
  }();
  for (std::size_t i = 0; i < dataset.members().size(); ++i) {
    const GptDataset& member = *dataset.members()[i];
    Json row{{"path", member.options().path},
             {"sequences", Json::array({member.options().spec.first_sequence,
                                        member.options().spec.last_sequence})},
             {"tokens", member.counts().tokens_per_epoch},
             {"epochs", member.counts().epochs},
             {"samples", member.size()},
             {"taken", taken[i]},
             {"cache", member.options().cache.string()}};
    if (dataset.blended()) row["weight"] = dataset.weights()[i];
    json["members"].push_back(std::move(row));
  }
  return json;
}

std::string as_text(const Json& split) {
  std::string text = fmt::format("{}: {} samples\n", split["split"].get<std::string>(),
                                 split["samples"].get<std::uint64_t>());
  for (const Json& row : split["members"]) {
    text +=
        fmt::format("  {}: {} of {} samples, {} epochs of {} tokens, sequences {} to {}{}\n",
                    row["path"].get<std::string>(), row["taken"].get<std::uint64_t>(),
                    row["samples"].get<std::uint64_t>(), row["epochs"].get<std::uint64_t>(),
                    row["tokens"].get<std::uint64_t>(), row["sequences"][0].get<std::uint64_t>(),
                    row["sequences"][1].get<std::uint64_t>(),
                    row["cache"] == "" ? "" : ", cache " + row["cache"].get<std::string>());
  }
  return text;
}

/// consumed_hash and position of each checkpoint of a run, by position.
std::map<std::uint64_t, LoaderState> states_of_run(const fs::path& run, const Recipe& recipe) {
  std::string folder = recipe.checkpoint.dir;
  if (folder.starts_with("${run}")) folder = run.string() + folder.substr(6);
  std::map<std::uint64_t, LoaderState> states;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const auto text = read_file(at->path() / "state" / "loader.json");
    if (!text.ok()) continue;
    const LoaderState state = take_data(LoaderState::parse(*text));
    states.emplace(state.position, state);
  }
  if (states.empty()) {
    fail_data({ErrorKind::kNotFound, "the run has no checkpoint with a loader state", folder});
  }
  return states;
}

LoadedRecipe recipe_of_run(const fs::path& run) {
  LoadedRecipe loaded = load_recipe({.path = (run / "recipe.resolved.toml").string()});
  if (!loaded.faults.empty()) throw ConfigError(loaded.faults);
  return loaded;
}

/// Steps at which the recomputed hash differs from the run's, and how many were compared.
int verify_alone(const Invocation& call, const fs::path& run) {
  const LoadedRecipe loaded = recipe_of_run(run);
  const auto states = states_of_run(run, loaded.recipe.get());
  const OrderOfRun opened = open_order(loaded.recipe.get());
  const std::uint64_t per_step = opened.lookup.positions_per_step();
  int faults = 0;
  for (const auto& [position, state] : states) {
    if (state.weights_history.size() > 1 || position % per_step != 0) {
      fail_data(
          {ErrorKind::kUnsupported,
           fmt::format("position {}: weights or batch size changed on the way; only runs with "
                       "one of each are recomputed",
                       position),
           run.string()});
    }
    const bool same = opened.lookup.hash_of_steps(position / per_step).hex() == state.consumed_hash;
    faults += same ? 0 : 1;
    const Json json{{"step", position / per_step}, {"position", position}, {"equal", same}};
    print(call.json ? json.dump() + "\n"
                    : fmt::format("step {}: {}\n", position / per_step,
                                  same ? "as recomputed" : "differs from what the recipe gives"));
  }
  return static_cast<int>(faults == 0 ? ExitCode::kOk : ExitCode::kVerdict);
}

int verify_two(const Invocation& call, const fs::path& a, const fs::path& b) {
  const auto left = states_of_run(a, recipe_of_run(a).recipe.get());
  const auto right = states_of_run(b, recipe_of_run(b).recipe.get());
  int faults = 0, compared = 0;
  for (const auto& [position, state] : left) {
    const auto other = right.find(position);
    if (other == right.end()) continue;
    ++compared;
    const bool same = other->second.consumed_hash == state.consumed_hash;
    faults += same ? 0 : 1;
    const Json json{{"position", position}, {"equal", same}};
    print(call.json
              ? json.dump() + "\n"
              : fmt::format("position {}: {}\n", position, same ? "the same data" : "other data"));
  }
  if (compared == 0) {
    fail_data(
        {ErrorKind::kInvalid, "the runs have no checkpoint at the same position", a.string()});
  }
  return static_cast<int>(faults == 0 ? ExitCode::kOk : ExitCode::kVerdict);
}

}  // namespace

int data_build(const Invocation& call) {
  const RecipeData data = open_recipe_data(call.recipe.get());
  if (!data.train || !data.train->megatron()) {
    throw ConfigError(user_fault(8, "data.mode is not \"megatron\"", "data.mode",
                                 "the native order needs no index caches",
                                 "sextant data build ... --set data.mode=megatron"));
  }
  for (const auto& [dataset, split] : {std::pair{data.train, "train"}, {data.heldout, "valid"}}) {
    if (!dataset) continue;
    const Json json = describe(*dataset->megatron(), split);
    print(call.json ? json.dump() + "\n" : as_text(json));
  }
  return 0;
}

int data_order(const Invocation& call) {
  const OrderOfRun opened = open_order(call.recipe.get());
  const auto first = static_cast<std::uint64_t>(call.integer("from", 0));
  std::uint64_t end = first + static_cast<std::uint64_t>(call.integer("count", 10));
  if (const auto size = opened.lookup.size()) end = std::min(end, *size);
  const std::uint64_t per_step = opened.lookup.positions_per_step();
  for (std::uint64_t position = first; position < end; ++position) {
    const OrderLookup::Entry entry = take_data(opened.lookup.at(position));
    const std::string& path = opened.data.train->members()[entry.key.member].path_id;
    std::string text;
    if (call.has("text")) {
      text = one_line(opened.data.tokenizer.decode_lossy(
          std::vector<TokenId>(entry.tokens.begin(), entry.tokens.end())));
    }
    Json json{
        {"position", position}, {"step", position / per_step},       {"key", entry.key.to_string()},
        {"path", path},         {"document", entry.sample.document}, {"token", entry.sample.token}};
    if (call.has("text")) json["text"] = text;
    print(call.json
              ? json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
              : fmt::format("{:>10}  step {:<8} {:<14} {}  document {}, token {}{}\n", position,
                            position / per_step, entry.key.to_string(), path, entry.sample.document,
                            entry.sample.token, text.empty() ? "" : "  " + text));
  }
  return 0;
}

int data_where(const Invocation& call) {
  if (!call.has("key")) {
    throw ConfigError(user_fault(25, "no --key", "data where", "a key is MEMBER:EPOCH:UNIT",
                                 "sextant data order ... prints keys"));
  }
  const UnitKey key = take_data(parse_unit_key(call.text("key")));
  const OrderOfRun opened = open_order(call.recipe.get());
  const std::uint64_t per_step = opened.lookup.positions_per_step();
  const auto places = take_data(opened.lookup.positions_of(key));
  for (const std::uint64_t position : places) {
    const Json json{
        {"position", position}, {"step", position / per_step}, {"row", position % per_step}};
    print(call.json ? json.dump() + "\n"
                    : fmt::format("position {}, step {}, row {}\n", position, position / per_step,
                                  position % per_step));
  }
  if (places.empty() && !call.json) print("nowhere\n");
  return 0;
}

int data_verify(const Invocation& call) {
  if (call.inputs.size() == 2) return verify_two(call, call.inputs[0], call.inputs[1]);
  return verify_alone(call, call.inputs[0]);
}

}  // namespace sx
