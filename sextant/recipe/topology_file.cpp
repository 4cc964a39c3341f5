#include "sextant/recipe/topology_file.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/recipe/read_source.h"

namespace sx {
namespace {

constexpr std::size_t kMaxBytes = 16 << 20;
constexpr std::int64_t kMaxBandwidth = std::int64_t{1} << 60;

Error invalid(std::string message, std::string where) {
  return {.kind = ErrorKind::kInvalid, .message = std::move(message), .where = std::move(where)};
}

/// The keys of a topology file as read.
struct Draft {
  std::optional<std::int64_t> ranks_per_node, ranks_per_island;
  std::vector<std::int64_t> node, island, rail;
  Topology::Links links = Topology::nominal_links();
};

template <class T>
Result<void> take(const Setting& setting, T& out) {
  if (read_value(setting.value, out)) return {};
  return invalid(fmt::format("{} wants {}", setting.key, expected(out)), setting.where);
}

Result<void> take_count(const Setting& setting, std::optional<std::int64_t>& out) {
  std::int64_t value = 0;
  SX_TRY_VOID(take(setting, value));
  if (value < 1) return invalid(fmt::format("{} = {}", setting.key, value), setting.where);
  out = value;
  return {};
}

Result<bool> take_link(const Setting& setting, Topology::Links& links) {
  for (int i = 0; i < kNumLinkClasses; ++i) {
    const std::string name = fmt::format("link.{}.", to_string(static_cast<LinkClass>(i)));
    Link& link = links[static_cast<std::size_t>(i)];
    if (setting.key == name + "bandwidth") {
      SX_TRY_VOID(take(setting, link.per_second));
      if (link.per_second.value < 1 || link.per_second.value > kMaxBandwidth)
        return invalid(fmt::format("{} is no bandwidth", setting.key), setting.where);
      return true;
    }
    if (setting.key == name + "latency") {
      SX_TRY_VOID(take(setting, link.latency));
      if (!(link.latency.value >= 0))
        return invalid(fmt::format("{} is no latency", setting.key), setting.where);
      return true;
    }
  }
  return false;
}

Result<void> take_setting(const Setting& setting, Draft& draft) {
  const std::string& key = setting.key;
  if (key == "ranks_per_node") return take_count(setting, draft.ranks_per_node);
  if (key == "ranks_per_island") return take_count(setting, draft.ranks_per_island);
  if (key == "node") return take(setting, draft.node);
  if (key == "island") return take(setting, draft.island);
  if (key == "rail") return take(setting, draft.rail);
  SX_TRY(const bool is_link, take_link(setting, draft.links));
  if (is_link) return {};
  return invalid(fmt::format("unknown key {}", key), setting.where);
}

/// Places from the lists; a list that was left out follows from the one before it.
Result<Topology> from_lists(const Draft& draft, const std::string& label, std::int64_t ranks) {
  const auto size_of = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  const std::pair<const char*, std::int64_t> lists[] = {{"node", size_of(draft.node)},
                                                        {"island", size_of(draft.island)},
                                                        {"rail", size_of(draft.rail)}};
  for (const auto& [name, size] : lists) {
    const bool optional = name != lists[0].first;
    if (size == ranks || (optional && size == 0)) continue;
    return invalid(fmt::format("{} has {} entries for {} ranks", name, size, ranks), label);
  }
  std::vector<RankPlace> places;
  std::map<std::int64_t, std::int64_t> node_of;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const std::int64_t node = draft.node[rank];
    const std::int64_t island = draft.island.empty() ? node : draft.island[rank];
    places.push_back(
        {.node = node, .island = island, .rail = draft.rail.empty() ? 0 : draft.rail[rank]});
    if (node_of.try_emplace(island, node).first->second != node)
      return invalid(fmt::format("island {} is on two nodes", island), label);
  }
  return Topology(std::move(places), draft.links);
}

}  // namespace

Result<Topology> read_topology(std::string_view toml, const std::string& label,
                               std::int64_t ranks) {
  std::vector<Layer> layers;
  std::vector<Diagnostic> faults;
  read_recipe_text(toml, label, layers, faults);
  if (!faults.empty()) return invalid(faults.front().what, faults.front().where);
  Draft draft;
  for (const Layer& layer : layers) {
    for (const Setting& setting : layer) SX_TRY_VOID(take_setting(setting, draft));
  }
  const bool lists = !draft.node.empty() || !draft.island.empty() || !draft.rail.empty();
  const bool counts = draft.ranks_per_node || draft.ranks_per_island;
  if (lists && counts) return invalid("both lists and ranks_per_* are given", label);
  if (lists) return from_lists(draft, label, ranks);
  if (!draft.ranks_per_node) return invalid("ranks_per_node or node is needed", label);
  const std::int64_t per_island = draft.ranks_per_island.value_or(*draft.ranks_per_node);
  if (*draft.ranks_per_node % per_island != 0) {
    return invalid(fmt::format("ranks_per_island = {} does not divide ranks_per_node = {}",
                               per_island, *draft.ranks_per_node),
                   label);
  }
  return Topology::uniform(ranks, *draft.ranks_per_node, per_island, draft.links);
}

Result<Topology> read_topology_file(const std::string& path, std::int64_t ranks) {
  SX_TRY(const std::string text, read_file(path, kMaxBytes));
  return read_topology(text, path, ranks);
}

}  // namespace sx
