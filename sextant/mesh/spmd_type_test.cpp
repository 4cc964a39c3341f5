#include "sextant/mesh/spmd_type.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sx {
namespace {

constexpr SpmdType R = SpmdType::kReplicated, I = SpmdType::kInvariant, V = SpmdType::kVarying,
                   P = SpmdType::kPartial;
constexpr std::size_t kDegree = 3;
constexpr std::size_t kWhole = 2 * kDegree;  // elements of the whole value

/// The copies of a tensor, by coordinate.
using Copies = std::vector<std::vector<double>>;

std::vector<double> sum_of(const Copies& copies) {
  std::vector<double> sum(copies[0].size(), 0.0);
  for (const auto& copy : copies) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += copy[i];
  }
  return sum;
}

std::vector<double> slice(const std::vector<double>& whole, std::size_t r) {
  return {whole.begin() + static_cast<std::ptrdiff_t>(2 * r),
          whole.begin() + static_cast<std::ptrdiff_t>(2 * r + 2)};
}

/// A move done by hand on all coordinates at once. all_to_all is its own inverse here: element j of
/// coordinate r and element r of coordinate j change places, which needs kDegree elements each.
Copies moved(SpmdMove move, const Copies& in) {
  Copies out(kDegree);
  for (std::size_t r = 0; r < kDegree; ++r) {
    switch (move) {
      case SpmdMove::kIdentity: out[r] = in[r]; break;
      case SpmdMove::kAllReduce: out[r] = sum_of(in); break;
      case SpmdMove::kSlice: out[r] = slice(in[r], r); break;
      case SpmdMove::kReduceScatter: out[r] = slice(sum_of(in), r); break;
      case SpmdMove::kGather:
        for (const auto& part : in) out[r].insert(out[r].end(), part.begin(), part.end());
        break;
      case SpmdMove::kZeroPad:
        out[r].assign(kWhole, 0.0);
        std::copy(in[r].begin(), in[r].end(), out[r].begin() + static_cast<std::ptrdiff_t>(2 * r));
        break;
      case SpmdMove::kFirstOnly:
        out[r] = r == 0 ? in[r] : std::vector<double>(in[r].size(), 0.0);
        break;
      case SpmdMove::kAllToAll:
        for (std::size_t j = 0; j < kDegree; ++j) out[r].push_back(in[j][r]);
        break;
    }
  }
  return out;
}

/// A tensor of the type whose global value has elements x + i.
Copies tensor(SpmdType type, double x, bool square = false) {
  Copies out(kDegree);
  for (std::size_t r = 0; r < kDegree; ++r) {
    if (square) {
      for (std::size_t j = 0; j < kDegree; ++j)
        out[r].push_back(x + static_cast<double>(r * kDegree + j));
      continue;
    }
    std::vector<double> whole(kWhole);
    std::iota(whole.begin(), whole.end(), x);
    if (type == V) whole = slice(whole, r);
    if (type == P) {
      for (double& value : whole) value = r == 0 ? value - 7.0 * (kDegree - 1) : 7.0;
    }
    out[r] = whole;
  }
  return out;
}

/// <gradient, tensor> as a number: what each element of the global value contributes once. The
/// pairing of a type with its adjoint is a sum over coordinates, except I with I, where all have
/// the same and one is counted.
double pairing(SpmdType type, const Copies& value, const Copies& gradient) {
  double sum = 0;
  for (std::size_t r = 0; r < (type == I ? 1 : kDegree); ++r) {
    for (std::size_t i = 0; i < value[r].size(); ++i) sum += value[r][i] * gradient[r][i];
  }
  return sum;
}

// The backward of a linear map is its adjoint: <C x, g> = <x, C' g> for all x and g of the types.
TEST(SpmdType, EveryConversionsBackwardIsTheAdjointOfItsForward) {
  for (const Conversion& row : conversions()) {
    SCOPED_TRACE(std::string(to_string(row.from)) + " -> " + to_string(row.to));
    const bool square = row.from == V && row.to == V;
    // As a part declared to be a summand, the value is not a slice but a whole of its own.
    const SpmdType read = row.from == V && row.to == P ? P : row.from;
    const Copies x = tensor(read, 1.0, square);
    const Copies y = moved(row.forward, x);
    Copies g = tensor(adjoint(row.to), 10.0, square);
    const Copies back = moved(row.backward, g);
    EXPECT_DOUBLE_EQ(pairing(row.to, y, g), pairing(row.from, x, back));
  }
}

TEST(SpmdType, ConversionsKeepTheGlobalValue) {
  for (const Conversion& row : conversions()) {
    if (row.from == V && (row.to == V || row.to == P)) continue;
    SCOPED_TRACE(std::string(to_string(row.from)) + " -> " + to_string(row.to));
    const Copies y = moved(row.forward, tensor(row.from, 1.0));
    if (row.to == P) {
      EXPECT_EQ(sum_of(y), tensor(R, 1.0)[0]);
    } else {
      EXPECT_EQ(y, tensor(row.to, 1.0));
    }
  }
}

TEST(SpmdType, SummingForAllAndSummingForOneDifferInBackward) {
  EXPECT_EQ(conversion(P, R).value().forward, conversion(P, I).value().forward);
  EXPECT_NE(conversion(P, R).value().backward, conversion(P, I).value().backward);
  EXPECT_EQ(conversion(R, P).error().message, "R cannot become P: only V can be a sum of parts");
  EXPECT_EQ(conversion(I, I).error().message, "I is I already");
}

std::string mixed(SpmdUse use, std::vector<SpmdType> operands) {
  const Result<SpmdType> type = mix(use, operands);
  return type.ok() ? to_string(*type) : "illegal";
}

TEST(SpmdType, MixingRules) {
  using enum SpmdUse;
  EXPECT_EQ(mixed(kNonlinear, {I, I}), "I");
  EXPECT_EQ(mixed(kNonlinear, {R, R}), "R");
  EXPECT_EQ(mixed(kNonlinear, {V, R}), "V");
  EXPECT_EQ(mixed(kNonlinear, {I, R}), "illegal");
  EXPECT_EQ(mixed(kNonlinear, {V, I}), "illegal");
  EXPECT_EQ(mixed(kNonlinear, {P}), "illegal");
  EXPECT_EQ(mixed(kSum, {P, P}), "P");
  EXPECT_EQ(mixed(kSum, {P, R}), "illegal");
  EXPECT_EQ(mixed(kSum, {P, I}), "illegal");
  EXPECT_EQ(mixed(kSum, {V, R}), "V");
  EXPECT_EQ(mixed(kContractSharded, {V, V}), "P");
  EXPECT_EQ(mixed(kContractSharded, {V, R}), "illegal");
  EXPECT_EQ(mixed(kContractWhole, {V, R}), "V");
  EXPECT_EQ(mixed(kContractWhole, {R, R}), "R");
  EXPECT_EQ(mixed(kContractWhole, {I, I}), "I");
  EXPECT_EQ(mixed(kContractWhole, {P, R}), "P");
  EXPECT_EQ(mixed(kContractWhole, {P, P}), "illegal");
  EXPECT_EQ(mixed(kContractWhole, {I, V}), "illegal");
}

TEST(SpmdType, AParameterHasOneStoredType) {
  EXPECT_EQ(stored_type(std::vector{I, I}).value(), I);
  EXPECT_EQ(stored_type(std::vector{I, R}).value(), R);
  EXPECT_EQ(stored_type(std::vector{V, V}).value(), V);
  EXPECT_FALSE(stored_type(std::vector{V, R}).ok());
  EXPECT_FALSE(stored_type(std::vector{P}).ok());
}

/// A use that is I on tp, unless `tp` says otherwise.
ParamUse param(std::string fqn, SpmdType tp, std::vector<std::int64_t> stages = {}) {
  ParamUse use{.fqn = std::move(fqn), .types = {}, .stages = std::move(stages)};
  use.on(Axis::kTp) = tp;
  return use;
}

std::vector<std::string> plan_of(bool sequence_parallel) {
  const SpmdType norm = sequence_parallel ? R : I;  // beside V tokens, or beside equal ones
  ParamUse expert{.fqn = "layers.1.experts.up.weight", .types = {}, .stages = {}};
  expert.on(Axis::kEp) = V;
  expert.on(Axis::kEtp) = V;
  const std::vector<ParamUse> dense = {
      param("embedding.weight", V, {0, 3}),         param("layers.0.attention.q.weight", V),
      param("layers.0.attention.q_norm.weight", R), param("layers.0.attention.o.bias", norm),
      param("layers.0.norm.weight", norm),          param("layers.1.router.weight", R)};
  const auto plan = derive_grad_plan(dense, std::vector{expert});
  std::vector<std::string> lines;
  for (const GradReduction& row : plan.value()) lines.push_back(row.to_string());
  return lines;
}

TEST(GradPlan, IsDerivedFromTheTypes) {
  const std::string data = "dp_replicate+dp_shard+cp", data_tp = data + "+tp";
  EXPECT_EQ(plan_of(true), (std::vector<std::string>{
                               "embedding.weight: SUM over " + data + ", then over pp {0, 3}",
                               "layers.0.attention.o.bias: SUM over " + data_tp,
                               "layers.0.attention.q.weight: SUM over " + data,
                               "layers.0.attention.q_norm.weight: SUM over " + data_tp,
                               "layers.0.norm.weight: SUM over " + data_tp,
                               "layers.1.experts.up.weight: SUM over dp_replicate+edp",
                               "layers.1.router.weight: SUM over " + data_tp}));
  const std::vector<std::string> without = plan_of(false);
  EXPECT_EQ(without[1], "layers.0.attention.o.bias: SUM over " + data);
  EXPECT_EQ(without[3], "layers.0.attention.q_norm.weight: SUM over " + data_tp);
  EXPECT_EQ(without[4], "layers.0.norm.weight: SUM over " + data);
  EXPECT_EQ(without[6], "layers.1.router.weight: SUM over " + data_tp);
}

TEST(GradPlan, DifferencesAreShown) {
  const std::vector<ParamUse> a = {param("a", R), param("b", V)},
                              b = {param("a", R), param("b", I)},
                              c = {param("a", R), param("b", R)};
  const auto plan_a = derive_grad_plan(a, {}).value(), plan_b = derive_grad_plan(b, {}).value(),
             plan_c = derive_grad_plan(c, {}).value();
  EXPECT_EQ(first_difference(plan_a, plan_b, "declared", "traced"), "");
  EXPECT_EQ(first_difference(plan_a, plan_c, "declared", "traced"),
            "declared: b: SUM over dp_replicate+dp_shard+cp; traced: b: SUM over "
            "dp_replicate+dp_shard+cp+tp");
  EXPECT_FALSE(derive_grad_plan(std::vector{param("a", P)}, {}).ok());
  EXPECT_FALSE(derive_grad_plan(std::vector{param("a", R), param("a", R)}, {}).ok());
}

}  // namespace
}  // namespace sx
