#include "apps/sextant/cmd_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/program/program.h"
#include "apps/sextant/plan_schedule.h"
#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/hash.h"
#include "sextant/mesh/group_plan.h"
#include "sextant/mesh/topology.h"
#include "sextant/recipe/topology_file.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;

/// The groups of ranks that the parts of a run talk in.
struct View {
  const char* name;
  AxisSet axes;
};
const View kViews[] = {
    {"pp", Axis::kPp},
    {"dp_replicate", Axis::kDpReplicate},
    {"dp_shard", Axis::kDpShard},
    {"cp", Axis::kCp},
    {"tp", Axis::kTp},
    {"fsdp", kFsdpAxes},
    {"dp", kDataAxes},
    {"loss", kLossAxes},
    {"ep", Axis::kEp},
    {"etp", Axis::kEtp},
    {"edp", Axis::kEdp},
};

struct MeshFacts {
  DeviceMesh mesh;
  GroupPlan plan;
  std::optional<Topology> topology;
};

ParallelDims dims_of(const Recipe& recipe, std::optional<std::int64_t> ranks) {
  const ParallelismKeys& parallelism = recipe.parallelism;
  ParallelDims dims{.pp = parallelism.pp,
                    .dp_replicate = parallelism.dp_replicate,
                    .dp_shard = parallelism.dp_shard.value_or(1),
                    .cp = parallelism.cp,
                    .tp = parallelism.tp,
                    .ep = parallelism.ep,
                    .etp = parallelism.etp};
  if (!parallelism.dp_shard && ranks)
    dims.dp_shard = std::max<std::int64_t>(1, *ranks / dims.world_size());
  return dims;
}

MeshFacts look_at(const Invocation& call) {
  const Recipe& recipe = call.recipe.get();
  std::optional<std::int64_t> ranks;
  if (call.has("ranks")) ranks = call.integer("ranks", 1);
  const ParallelDims dims = dims_of(recipe, ranks);
  const std::vector<Diagnostic> faults = ranks ? dims.faults(*ranks) : dims.faults();
  if (!faults.empty()) throw ConfigError(faults);
  constexpr std::int64_t kMostRanks = 1 << 20;
  if (dims.world_size() > kMostRanks) {
    throw ConfigError(Diagnostic{.number = 3,
                                 .what = fmt::format("a mesh of {} ranks", dims.world_size()),
                                 .where = "parallelism",
                                 .rule = "plan mesh lists every rank, up to 2^20",
                                 .next = "lower one of the degrees"});
  }
  const Result<RankOrder> order = parse_rank_order(recipe.parallelism.rank_order, dims);
  if (!order.ok()) {
    throw ConfigError(Diagnostic{.number = 3,
                                 .what = "parallelism.rank_order: " + order.error().message,
                                 .where = "parallelism.rank_order",
                                 .rule = "an order names every axis whose degree is above 1, once",
                                 .next = "--set parallelism.rank_order=default"});
  }
  const DeviceMesh mesh(dims, order.value());
  std::vector<GroupRequest> requests;
  for (const View& view : kViews) requests.push_back({view.axes, Purpose::kControl});
  std::optional<Topology> topology;
  if (recipe.parallelism.topology != "auto") {
    Result<Topology> read = read_topology_file(recipe.parallelism.topology, mesh.world_size());
    if (!read.ok())
      throw FatalError(to_diagnostic(read.error(), "docs/formats/topology.md shows the form"));
    topology = std::move(read).value();
  }
  return {mesh, GroupPlan(mesh, requests), std::move(topology)};
}

/// "0 1 2 3", "0 4 8 .. 60" for many ranks at one distance.
std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t kShown = 16;
  if (ranks.size() <= kShown) return fmt::format("{}", fmt::join(ranks, " "));
  bool even = true;
  for (std::size_t i = 2; i < ranks.size(); ++i)
    even = even && ranks[i] - ranks[i - 1] == ranks[1] - ranks[0];
  if (even) return fmt::format("{} {} {} .. {}", ranks[0], ranks[1], ranks[2], ranks.back());
  return fmt::format("{} .. {} ({} ranks)", fmt::join(ranks.begin(), ranks.begin() + kShown, " "),
                     ranks.back(), ranks.size());
}

std::string degrees_text(const ParallelDims& dims) {
  std::string text = fmt::format("pp {}, dp_replicate {}, dp_shard {}, cp {}, tp {}", dims.pp,
                                 dims.dp_replicate, dims.dp_shard, dims.cp, dims.tp);
  if (dims.ep * dims.etp > 1)
    text += fmt::format("; experts: edp {}, ep {}, etp {}", dims.edp(), dims.ep, dims.etp);
  return text;
}

/// A view that has groups: with ep = etp = 1 edp is left out, it is everything a replica has.
bool is_shown(const MeshFacts& facts, const View& view) {
  const ParallelDims& dims = facts.mesh.dims();
  if (view.axes == AxisSet(Axis::kEdp) && dims.ep * dims.etp == 1) return false;
  return facts.mesh.degree(view.axes) > 1;
}

std::string link_text(const MeshFacts& facts, const View& view) {
  if (!facts.topology) return "";
  const LinkClass link = facts.topology->link_class(facts.mesh, view.axes);
  return fmt::format(", {} at {:.4g} GB/s{}", to_string(link),
                     static_cast<double>(facts.topology->link(link).per_second.value) / 1e9,
                     facts.topology->one_rail(facts.mesh, view.axes) ? ", one rail" : "");
}

std::string whole_mesh_text(const MeshFacts& facts) {
  constexpr std::size_t kMostGroups = 64;
  std::string text;
  for (const View& view : kViews) {
    if (!is_shown(facts, view)) continue;
    const auto groups = facts.mesh.all_groups(view.axes);
    text +=
        fmt::format("\n{}: {} group{} of {}{}\n", view.name, groups.size(),
                    groups.size() == 1 ? "" : "s", groups.front().size(), link_text(facts, view));
    for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i)
      text += "  " + ranks_text(groups[i]) + "\n";
    if (groups.size() > kMostGroups)
      text += fmt::format("  and {} more (--json shows all)\n", groups.size() - kMostGroups);
  }
  return text;
}

std::string one_rank_text(const MeshFacts& facts, std::int64_t rank) {
  const Coords at = facts.mesh.coords(rank);
  std::string text = fmt::format("\nrank {}:", rank);
  for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
                          Axis::kEp, Axis::kEtp}) {
    if (facts.mesh.degree(axis) > 1) text += fmt::format(" {} {}", to_string(axis), at[axis]);
  }
  text += "\n";
  for (const View& view : kViews) {
    if (!is_shown(facts, view)) continue;
    text +=
        fmt::format("  {:<13} {}{}\n", view.name,
                    ranks_text(facts.mesh.ranks_along(view.axes, rank)), link_text(facts, view));
  }
  return text;
}

std::string mesh_text(const MeshFacts& facts, std::optional<std::int64_t> rank) {
  std::string text =
      fmt::format("ranks     {}\ndegrees   {}\norder     {}\n", facts.mesh.world_size(),
                  degrees_text(facts.mesh.dims()), facts.mesh.order().to_string());
  if (facts.topology) text += fmt::format("nodes     {}\n", facts.topology->num_nodes());
  text += fmt::format("groups    {} ({} named), rank {} is in {}\nplan      {}\n",
                      facts.plan.groups().size(), facts.plan.num_named(), rank.value_or(0),
                      facts.plan.num_of(rank.value_or(0)), hex64(facts.plan.hash()));
  return text + (rank ? one_rank_text(facts, *rank) : whole_mesh_text(facts));
}

Json mesh_json(const MeshFacts& facts, std::optional<std::int64_t> rank) {
  Json json;
  json["ranks"] = facts.mesh.world_size();
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    json["degrees"][to_string(axis)] = facts.mesh.dims().degree(axis);
  }
  json["order"] = facts.mesh.order().to_string();
  json["groups"] = facts.plan.groups().size();
  json["groups_named"] = facts.plan.num_named();
  json["plan"] = hex64(facts.plan.hash());
  Json views = Json::object();
  for (const View& view : kViews) {
    if (!is_shown(facts, view)) continue;
    Json one;
    one["degree"] = facts.mesh.degree(view.axes);
    if (facts.topology) {
      const LinkClass link = facts.topology->link_class(facts.mesh, view.axes);
      one["link"] = to_string(link);
      one["bytes_per_s"] = facts.topology->link(link).per_second.value;
      one["one_rail"] = facts.topology->one_rail(facts.mesh, view.axes);
    }
    if (rank) {
      one["ranks"] = facts.mesh.ranks_along(view.axes, *rank);
    } else {
      one["groups"] = facts.mesh.all_groups(view.axes);
    }
    views[view.name] = std::move(one);
  }
  json["views"] = std::move(views);
  if (rank) {
    const Coords at = facts.mesh.coords(*rank);
    json["rank"] = *rank;
    for (int i = 0; i < kNumAxes; ++i)
      json["coord"][to_string(static_cast<Axis>(i))] = at[static_cast<Axis>(i)];
    json["rank_groups"] = facts.plan.num_of(*rank);
  }
  return json;
}

int plan_mesh(const Invocation& call) {
  const MeshFacts facts = look_at(call);
  std::optional<std::int64_t> rank;
  if (call.has("rank")) rank = call.integer("rank", 0);
  if (rank && !facts.mesh.has_rank(*rank)) {
    throw ConfigError(
        Diagnostic{.number = 3,
                   .what = fmt::format("--rank {} is not in the mesh", *rank),
                   .where = "command line (--rank)",
                   .rule = fmt::format("ranks are 0 to {}", facts.mesh.world_size() - 1),
                   .next = "--rank 0"});
  }
  print(call.json ? mesh_json(facts, rank).dump(2) + "\n" : mesh_text(facts, rank));
  if (facts.topology) {
    for (const Diagnostic& warning : facts.topology->warnings(facts.mesh))
      print_fault(warning, "warn", call.color);
  }
  return 0;
}

}  // namespace

int run_plan(const Invocation& invocation) {
  if (invocation.sub->name == "schedule") return plan_schedule(invocation);
  SX_CHECK(invocation.sub->name == "mesh", "plan {} is in the table and not here",
           invocation.sub->name);
  return plan_mesh(invocation);
}

}  // namespace sx
