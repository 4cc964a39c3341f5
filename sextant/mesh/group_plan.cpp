#include "sextant/mesh/group_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"

namespace sx {

bool PlannedGroup::has(std::int64_t rank) const {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

GroupPlan::GroupPlan(const DeviceMesh& mesh, std::span<const GroupRequest> requests) : mesh_(mesh) {
  std::map<std::pair<std::vector<std::int64_t>, Purpose>, std::size_t> known;
  for (const GroupRequest& request : requests) {
    if (std::count(requests_.begin(), requests_.end(), request) > 0) continue;
    requests_.push_back(request);
    index_.emplace_back(static_cast<std::size_t>(mesh.world_size()), -1);
    if (mesh.degree(request.axes) == 1) continue;
    for (std::vector<std::int64_t>& ranks : mesh.all_groups(request.axes)) {
      ++num_named_;
      const auto [place, is_new] = known.try_emplace({ranks, request.purpose}, groups_.size());
      for (const std::int64_t rank : ranks) {
        index_.back()[static_cast<std::size_t>(rank - mesh.rank_offset())] =
            static_cast<std::int64_t>(place->second);
      }
      if (is_new) {
        groups_.push_back({.ranks = std::move(ranks),
                           .axes = request.axes,
                           .purpose = request.purpose,
                           .also = {}});
      } else {
        std::vector<AxisSet>& also = groups_[place->second].also;
        if (std::count(also.begin(), also.end(), request.axes) == 0) also.push_back(request.axes);
      }
    }
  }
}

std::int64_t GroupPlan::num_of(std::int64_t rank) const {
  return std::count_if(groups_.begin(), groups_.end(),
                       [rank](const PlannedGroup& group) { return group.has(rank); });
}

std::optional<std::size_t> GroupPlan::index_of(AxisSet axes, Purpose purpose,
                                               std::int64_t rank) const {
  SX_CHECK(mesh_.has_rank(rank), "rank {} is not in the mesh", rank);
  const auto request =
      std::find(requests_.begin(), requests_.end(), GroupRequest{.axes = axes, .purpose = purpose});
  SX_CHECK(request != requests_.end(), "the plan has no groups along {} for {}", axes.to_string(),
           to_string(purpose));
  const auto& by_rank = index_[static_cast<std::size_t>(request - requests_.begin())];
  const std::int64_t index = by_rank[static_cast<std::size_t>(rank - mesh_.rank_offset())];
  if (index < 0) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::string GroupPlan::text(std::span<const std::string> header) const {
  std::string lines;
  for (const std::string& line : header) lines += line + '\n';
  lines += fmt::format("mesh {}\nranks {}\n", mesh_.to_string(), mesh_.world_size());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const PlannedGroup& group = groups_[i];
    lines += fmt::format("group {} {} {}", i, to_string(group.purpose), group.axes.to_string());
    for (const AxisSet axes : group.also) lines += " = " + axes.to_string();
    lines += fmt::format(": {}\n", fmt::join(group.ranks, " "));
  }
  return lines;
}

std::uint64_t GroupPlan::hash(std::span<const std::string> header) const {
  return xxh64(text(header));
}

std::optional<PlanDifference> first_difference(std::string_view ours, std::string_view theirs) {
  const auto take_line = [](std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return std::string(line);
  };
  for (std::int64_t line = 1; !ours.empty() || !theirs.empty(); ++line) {
    PlanDifference found{.line = line, .ours = take_line(ours), .theirs = take_line(theirs)};
    if (found.ours != found.theirs) return found;
  }
  return std::nullopt;
}

}  // namespace sx
