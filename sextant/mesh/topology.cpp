#include "sextant/mesh/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sextant/base/check.h"

namespace sx {

const char* to_string(LinkClass link) {
  switch (link) {
    case LinkClass::kIsland: return "island";
    case LinkClass::kNode: return "node";
    case LinkClass::kNetwork: return "network";
  }
  return "?";
}

Topology::Links Topology::nominal_links() {
  return {{{.per_second = Bytes(450'000'000'000), .latency = Seconds(3e-6)},
           {.per_second = Bytes(63'000'000'000), .latency = Seconds(5e-6)},
           {.per_second = Bytes(50'000'000'000), .latency = Seconds(1e-5)}}};
}

Topology::Topology(std::vector<RankPlace> places, Links links)
    : places_(std::move(places)), links_(links) {
  std::map<std::int64_t, std::int64_t> node_of_island;
  for (const RankPlace& place : places_) {
    const auto [known, is_new] = node_of_island.try_emplace(place.island, place.node);
    SX_CHECK(known->second == place.node, "island {} is on nodes {} and {}", place.island,
             known->second, place.node);
  }
  for (const Link& link : links_) {
    SX_CHECK(link.per_second.value > 0 && link.latency.value >= 0, "a link of {} bytes per second",
             link.per_second.value);
  }
}

Topology Topology::uniform(std::int64_t ranks, std::int64_t ranks_per_node,
                           std::int64_t ranks_per_island, Links links) {
  SX_CHECK(ranks >= 1 && ranks_per_node >= 1 && ranks_per_island >= 1 &&
               ranks_per_node % ranks_per_island == 0,
           "{} ranks, {} on a node, {} on an island", ranks, ranks_per_node, ranks_per_island);
  std::vector<RankPlace> places;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    places.push_back({.node = rank / ranks_per_node,
                      .island = rank / ranks_per_island,
                      .rail = rank % ranks_per_node});
  }
  return Topology(std::move(places), links);
}

std::int64_t Topology::num_nodes() const {
  std::set<std::int64_t> nodes;
  for (const RankPlace& place : places_) nodes.insert(place.node);
  return static_cast<std::int64_t>(nodes.size());
}

const RankPlace& Topology::place(std::int64_t rank) const {
  SX_CHECK(rank >= 0 && rank < num_ranks(), "rank {} of a topology of {}", rank, num_ranks());
  return places_[static_cast<std::size_t>(rank)];
}

LinkClass Topology::link_class(const std::vector<std::int64_t>& ranks) const {
  LinkClass worst = LinkClass::kIsland;
  for (const std::int64_t rank : ranks) {
    const RankPlace& first = place(ranks.front());
    const RankPlace& other = place(rank);
    const LinkClass link = first.node != other.node       ? LinkClass::kNetwork
                           : first.island != other.island ? LinkClass::kNode
                                                          : LinkClass::kIsland;
    worst = std::max(worst, link);
  }
  return worst;
}

LinkClass Topology::link_class(const DeviceMesh& mesh, AxisSet axes) const {
  LinkClass worst = LinkClass::kIsland;
  for (const auto& ranks : mesh.all_groups(axes)) worst = std::max(worst, link_class(ranks));
  return worst;
}

bool Topology::one_rail(const DeviceMesh& mesh, AxisSet axes) const {
  for (const auto& ranks : mesh.all_groups(axes)) {
    for (const std::int64_t rank : ranks) {
      if (place(rank).rail != place(ranks.front()).rail) return false;
    }
  }
  return true;
}

std::vector<Diagnostic> Topology::warnings(const DeviceMesh& mesh) const {
  std::vector<Diagnostic> found;
  for (const Axis axis : {Axis::kTp, Axis::kEtp}) {
    if (mesh.degree(axis) == 1) continue;
    const LinkClass used = link_class(mesh, axis);
    if (used == LinkClass::kIsland) continue;
    const double fast = static_cast<double>(link(LinkClass::kIsland).per_second.value);
    const double slow = static_cast<double>(link(used).per_second.value);
    found.push_back(
        {.exit = ExitCode::kUser,
         .number = 29,
         .what = fmt::format("{} = {} leaves its island: its collectives run over the {} at {:.4g} "
                             "GB/s, {:.1f} times "
                             "slower than the {:.4g} GB/s inside",
                             to_string(axis), mesh.degree(axis), to_string(used), slow / 1e9,
                             fast / slow, fast / 1e9),
         .where = fmt::format("parallelism.{}", to_string(axis)),
         .rule = "tensor parallelism talks several times in every layer and waits each time",
         .next = "a smaller degree, or a parallelism.rank_order with this axis fastest"});
  }
  return found;
}

}  // namespace sx
