#include "sextant/mesh/rank_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

using Axes = std::vector<Axis>;

Error invalid(std::string message) {
  return {.kind = ErrorKind::kInvalid, .message = std::move(message), .where = {}};
}

std::vector<std::string> split_names(std::string_view text, char separator) {
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == separator) {
      names.emplace_back();
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return names;
}

std::optional<Axis> axis_of(std::string_view name) {
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (name == to_string(axis)) return axis;
  }
  return std::nullopt;
}

bool is_dense(Axis axis) { return AxisSet::world().contains(axis); }

bool is_expert_only(Axis axis) { return !is_dense(axis); }

/// The expert axis at the place of a dense one.
Axis expert_twin(Axis axis) {
  switch (axis) {
    case Axis::kDpShard: return Axis::kEdp;
    case Axis::kCp: return Axis::kEp;
    case Axis::kTp: return Axis::kEtp;
    default: return axis;
  }
}

/// Axes left out join as the fastest: with degree 1 their place does not matter.
Result<std::array<Axis, 5>> complete(Axes axes, const std::array<Axis, 5>& wanted,
                                     const ParallelDims& dims, std::string_view text) {
  for (const Axis axis : wanted) {
    if (std::count(axes.begin(), axes.end(), axis) > 0) continue;
    if (dims.degree(axis) != 1) {
      return invalid(fmt::format("\"{}\" does not name {}, whose degree is {}", text,
                                 to_string(axis), dims.degree(axis)));
    }
    axes.push_back(axis);
  }
  std::array<Axis, 5> result{};
  std::copy_n(axes.begin(), result.size(), result.begin());
  return result;
}

/// The axes of one view with their strides.
std::vector<std::pair<Axis, Layout>> strides(const std::array<Axis, 5>& order,
                                             const ParallelDims& dims) {
  std::vector<std::pair<Axis, Layout>> found;
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    found.emplace_back(order[i], Layout{{dims.degree(order[i]), stride}});
    stride *= dims.degree(order[i]);
  }
  SX_CHECK(stride == dims.world_size(), "a rank order gives {} ranks of {}", stride,
           dims.world_size());
  return found;
}

/// Cuts edp, ep and etp out of the ranks that dp_shard, cp and tp join.
bool nest(const RankOrder& order, const ParallelDims& dims, AxisLayouts& layouts) {
  Layout inner;
  for (const Axis axis : order.dense) {
    if (axis == Axis::kPp || axis == Axis::kDpReplicate) continue;
    inner = inner.then(layouts.axes[static_cast<std::size_t>(axis)]);
  }
  std::vector<Axis> axes;
  std::vector<std::int64_t> sizes;
  for (const Axis axis : order.expert) {
    if (is_dense(axis)) continue;
    axes.push_back(axis);
    sizes.push_back(dims.degree(axis));
  }
  const std::optional<std::vector<Layout>> cut = inner.unflatten(sizes);
  if (!cut) return false;
  for (std::size_t i = 0; i < axes.size(); ++i)
    layouts.axes[static_cast<std::size_t>(axes[i])] = (*cut)[i];
  return true;
}

Result<RankOrder> checked(const RankOrder& order, const ParallelDims& dims, std::string_view text) {
  if (axis_layouts(order, dims)) return order;
  return invalid(fmt::format(
      "\"{}\" joins other ranks into pipelines for expert than for dense parameters", text));
}

Result<RankOrder> parse_megatron(std::string_view text, const ParallelDims& dims) {
  Axes dense, expert;  // fastest first
  std::vector<std::string> seen;
  const std::vector<std::string> names = split_names(text, '-');
  for (const std::string& name : names) {
    if (std::count(seen.begin(), seen.end(), name) > 0)
      return invalid(fmt::format("\"{}\" names {} twice", text, name));
    seen.push_back(name);
    if (name == "dp") {
      dense.insert(dense.end(), {Axis::kDpShard, Axis::kDpReplicate});
      expert.insert(expert.end(), {Axis::kEdp, Axis::kDpReplicate});
    } else if (name == "tp") {
      dense.push_back(Axis::kTp);
      expert.push_back(Axis::kEtp);
    } else if (name == "cp") {
      dense.push_back(Axis::kCp);
    } else if (name == "ep") {
      expert.push_back(Axis::kEp);
    } else if (name == "pp") {
      dense.push_back(Axis::kPp);
      expert.push_back(Axis::kPp);
    } else {
      return invalid(fmt::format("\"{}\" in \"{}\" is none of tp cp ep dp pp", name, text));
    }
  }
  std::reverse(dense.begin(), dense.end());
  std::reverse(expert.begin(), expert.end());
  RankOrder order{.nested = false};
  SX_TRY(order.dense, complete(dense, order.dense, dims, text));
  SX_TRY(order.expert, complete(expert, order.expert, dims, text));
  if (names.back() != "pp" && dims.pp > 1 && dims.ep * dims.etp > 1 &&
      dims.edp() != dims.dp_shard) {
    return invalid(fmt::format(
        "\"{}\" does not end in pp, and edp = {} differs from dp_shard = {} with pp = {}", text,
        dims.edp(), dims.dp_shard, dims.pp));
  }
  return checked(order, dims, text);
}

Result<RankOrder> parse_list(std::string_view text, const ParallelDims& dims) {
  std::string_view inner = text;
  if (inner.starts_with('[') && inner.ends_with(']')) inner = inner.substr(1, inner.size() - 2);
  Axes named;
  for (const std::string& name : split_names(inner, ',')) {
    Axes now;
    if (name == "dp") {
      now = {Axis::kDpReplicate, Axis::kDpShard};
    } else if (const std::optional<Axis> axis = axis_of(name)) {
      now = {*axis};
    } else {
      return invalid(fmt::format(
          "\"{}\" in \"{}\" is no axis (pp dp_replicate dp_shard cp tp ep etp edp)", name, text));
    }
    for (const Axis axis : now) {
      if (std::count(named.begin(), named.end(), axis) > 0)
        return invalid(fmt::format("\"{}\" names {} twice", text, to_string(axis)));
      named.push_back(axis);
    }
  }
  Axes dense, expert;
  const bool own_expert_order = std::any_of(named.begin(), named.end(), is_expert_only);
  for (const Axis axis : named) {
    if (is_dense(axis)) dense.push_back(axis);
    const bool both = axis == Axis::kPp || axis == Axis::kDpReplicate;
    if (both || (own_expert_order && is_expert_only(axis))) expert.push_back(axis);
    if (!both && !own_expert_order) expert.push_back(expert_twin(axis));
  }
  RankOrder order{.nested = !own_expert_order};
  SX_TRY(order.dense, complete(dense, order.dense, dims, text));
  if (!own_expert_order) {
    // Twins of dense axes that were left out.
    for (const Axis axis : order.dense) {
      if (std::count(expert.begin(), expert.end(), expert_twin(axis)) == 0)
        expert.push_back(expert_twin(axis));
    }
  }
  SX_TRY(order.expert, complete(expert, order.expert, dims, text));
  return checked(order, dims, text);
}

}  // namespace

std::string RankOrder::to_string() const {
  std::string text;
  for (const Axis axis : dense)
    text += fmt::format("{}{}", text.empty() ? "" : ",", sx::to_string(axis));
  std::array<Axis, 5> twins{};
  std::transform(dense.begin(), dense.end(), twins.begin(), expert_twin);
  if (nested && expert == twins) return text;
  text += nested ? " / nested " : " / ";
  for (std::size_t i = 0; i < expert.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", sx::to_string(expert[i]));
  return text;
}

Result<RankOrder> parse_rank_order(std::string_view text, const ParallelDims& dims) {
  if (text == "default") return RankOrder{};
  if (text.find('-') != std::string_view::npos) return parse_megatron(text, dims);
  return parse_list(text, dims);
}

std::optional<AxisLayouts> axis_layouts(const RankOrder& order, const ParallelDims& dims) {
  AxisLayouts layouts;
  const auto at = [&layouts](Axis axis) -> Layout& {
    return layouts.axes[static_cast<std::size_t>(axis)];
  };
  for (const auto& [axis, layout] : strides(order.dense, dims)) at(axis) = layout;
  layouts.expert_replicate = at(Axis::kDpReplicate);
  if (order.nested || dims.ep * dims.etp == 1) {
    if (!nest(order, dims, layouts)) return std::nullopt;
    return layouts;
  }
  for (const auto& [axis, layout] : strides(order.expert, dims)) {
    if (axis == Axis::kPp) {
      if (at(axis) != layout) return std::nullopt;
    } else if (axis == Axis::kDpReplicate) {
      layouts.expert_replicate = layout;
    } else {
      at(axis) = layout;
    }
  }
  return layouts;
}

}  // namespace sx
