#include "sextant/mesh/spmd_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sx {
namespace {

constexpr SpmdType R = SpmdType::kReplicated, I = SpmdType::kInvariant, V = SpmdType::kVarying,
                   P = SpmdType::kPartial;

constexpr std::array<Conversion, 11> kConversions = {{
    {I, R, SpmdMove::kIdentity, SpmdMove::kAllReduce, false},
    {R, I, SpmdMove::kIdentity, SpmdMove::kFirstOnly, false},
    {P, I, SpmdMove::kAllReduce, SpmdMove::kIdentity, false},
    {P, R, SpmdMove::kAllReduce, SpmdMove::kAllReduce, false},
    {I, V, SpmdMove::kSlice, SpmdMove::kGather, false},
    {V, I, SpmdMove::kGather, SpmdMove::kSlice, false},
    {V, R, SpmdMove::kGather, SpmdMove::kReduceScatter, false},
    {R, V, SpmdMove::kSlice, SpmdMove::kZeroPad, false},
    {P, V, SpmdMove::kReduceScatter, SpmdMove::kGather, false},
    {V, V, SpmdMove::kAllToAll, SpmdMove::kAllToAll, false},
    {V, P, SpmdMove::kIdentity, SpmdMove::kIdentity, true},
}};

Error illegal(std::string message) {
  return {.kind = ErrorKind::kInvalid, .message = std::move(message), .where = {}};
}

bool has(std::span<const SpmdType> types, SpmdType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::string text_of(std::span<const SpmdType> types) {
  std::string text;
  for (const SpmdType type : types)
    text += (text.empty() ? "" : " with ") + std::string(to_string(type));
  return text;
}

/// Whole operands only, or parts beside replicated ones.
Result<SpmdType> mix_without_partial(std::span<const SpmdType> operands) {
  if (has(operands, I) && (has(operands, R) || has(operands, V))) {
    return illegal(text_of(operands) +
                   ": an invariant operand must become R first, or its gradient is not summed");
  }
  if (has(operands, V)) return V;
  return has(operands, I) ? I : R;
}

Result<SpmdType> mix_product(SpmdUse use, std::span<const SpmdType> operands) {
  const auto partial = std::count(operands.begin(), operands.end(), P);
  if (partial == 1 && std::count(operands.begin(), operands.end(), R) ==
                          static_cast<std::ptrdiff_t>(operands.size()) - 1) {
    return P;  // linear in the one
  }
  if (partial > 0)
    return illegal(text_of(operands) +
                   ": a partial operand of a product needs the others replicated");
  if (use == SpmdUse::kContractWhole) return mix_without_partial(operands);
  if (std::all_of(operands.begin(), operands.end(), [](SpmdType t) { return t == V; })) return P;
  return illegal(text_of(operands) + ": a sum over a sharded dim needs parts of all operands");
}

constexpr std::array kDenseAxes = {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
constexpr std::array kExpertAxes = {Axis::kDpReplicate, Axis::kEdp, Axis::kEp, Axis::kEtp};

Result<GradReduction> reduction_of(const ParamUse& use, std::span<const Axis> axes) {
  GradReduction out{.fqn = use.fqn, .axes = {}, .stages = use.stages};
  for (const Axis axis : axes) {
    if (use.on(axis) == P)
      return illegal(fmt::format("{} is partial on {}", use.fqn, to_string(axis)));
    if (use.on(axis) == R) out.axes = out.axes | axis;
  }
  return out;
}

}  // namespace

const char* to_string(SpmdType type) {
  constexpr std::array kNames = {"R", "I", "V", "P"};
  return kNames[static_cast<std::size_t>(type)];
}

const char* to_string(SpmdMove move) {
  constexpr std::array kNames = {"identity",       "all_reduce", "slice",    "all_gather",
                                 "reduce_scatter", "all_to_all", "zero_pad", "first_only"};
  return kNames[static_cast<std::size_t>(move)];
}

SpmdType adjoint(SpmdType type) {
  switch (type) {
    case R: return P;
    case P: return R;
    default: return type;
  }
}

std::span<const Conversion> conversions() { return kConversions; }

Result<Conversion> conversion(SpmdType from, SpmdType to) {
  for (const Conversion& row : kConversions) {
    if (row.from == from && row.to == to) return row;
  }
  if (from == to) return illegal(fmt::format("{} is {} already", to_string(from), to_string(to)));
  return illegal(fmt::format("{} cannot become {}: only {} can be a sum of parts", to_string(from),
                             to_string(to), to_string(V)));
}

Result<SpmdType> mix(SpmdUse use, std::span<const SpmdType> operands) {
  if (operands.empty()) return illegal("an operation without operands");
  switch (use) {
    case SpmdUse::kNonlinear:
      if (has(operands, P)) {
        return illegal(text_of(operands) +
                       ": a partial operand has to be summed before anything nonlinear");
      }
      return mix_without_partial(operands);
    case SpmdUse::kSum:
      if (!has(operands, P)) return mix_without_partial(operands);
      if (std::all_of(operands.begin(), operands.end(), [](SpmdType t) { return t == P; }))
        return P;
      return illegal(text_of(operands) +
                     ": the whole operand would be added once for each coordinate");
    default: return mix_product(use, operands);
  }
}

Result<SpmdType> stored_type(std::span<const SpmdType> uses) {
  if (uses.empty()) return illegal("a parameter without a use");
  if (has(uses, P)) return illegal("a parameter cannot be partial");
  if (has(uses, V)) {
    if (has(uses, R) || has(uses, I)) return illegal("a part in one use and whole in another");
    return V;
  }
  return has(uses, R) ? R : I;
}

std::string GradReduction::to_string() const {
  std::string text = axes == AxisSet{} ? fmt::format("{}: nothing", fqn)
                                       : fmt::format("{}: SUM over {}", fqn, axes.to_string());
  if (!stages.empty()) text += fmt::format(", then over pp {{{}}}", fmt::join(stages, ", "));
  return text;
}

Result<std::vector<GradReduction>> derive_grad_plan(std::span<const ParamUse> dense,
                                                    std::span<const ParamUse> experts) {
  std::vector<GradReduction> plan;
  for (const ParamUse& use : dense) {
    SX_TRY(GradReduction row, reduction_of(use, kDenseAxes));
    plan.push_back(std::move(row));
  }
  for (const ParamUse& use : experts) {
    SX_TRY(GradReduction row, reduction_of(use, kExpertAxes));
    plan.push_back(std::move(row));
  }
  std::sort(plan.begin(), plan.end(),
            [](const GradReduction& a, const GradReduction& b) { return a.fqn < b.fqn; });
  const auto twice = std::adjacent_find(
      plan.begin(), plan.end(),
      [](const GradReduction& a, const GradReduction& b) { return a.fqn == b.fqn; });
  if (twice != plan.end()) return illegal(twice->fqn + " is named twice");
  return plan;
}

std::string first_difference(std::span<const GradReduction> a, std::span<const GradReduction> b,
                             const std::string& name_a, const std::string& name_b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    const auto line = [&](std::span<const GradReduction> plan) {
      return i < plan.size() ? plan[i].to_string() : std::string("nothing more");
    };
    return fmt::format("{}: {}; {}: {}", name_a, line(a), name_b, line(b));
  }
  return "";
}

}  // namespace sx
