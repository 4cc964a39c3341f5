#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/mesh/axis.h"

namespace sx {

/// What the copies of a tensor on the coordinates of one axis have to do with each other. The
/// algebra follows meta-pytorch/spmd_types; where a gradient must be summed follows from it.
enum class SpmdType : std::uint8_t {
  kReplicated,  ///< R: equal, and each coordinate may use it in its own way; its gradient is P
  kInvariant,   ///< I: equal, and all compute the same from it; its gradient is I
  kVarying,     ///< V: each coordinate has its part; its gradient is V
  kPartial,     ///< P: the value is the sum over the coordinates; its gradient is R
};
inline constexpr int kNumSpmdTypes = 4;
const char* to_string(SpmdType type);  ///< "R", "I", "V", "P"

/// The type of the gradient of a tensor of this type.
SpmdType adjoint(SpmdType type);

/// What a conversion does to the data; all are the identity on an axis of degree 1.
enum class SpmdMove : std::uint8_t {
  kIdentity,
  kAllReduce,
  kSlice,          ///< the own part of the whole
  kGather,         ///< all_gather
  kReduceScatter,  ///< the own part of the sum
  kAllToAll,       ///< parts along one dim become parts along another
  kZeroPad,        ///< the part in its place, zeros elsewhere
  kFirstOnly,      ///< kept on coordinate 0, zeros elsewhere
};
const char* to_string(SpmdMove move);

/// A legal change of type. Its backward takes a gradient of type adjoint(to) to adjoint(from).
/// Conversions are the only collectives on activations, and none changes its input.
struct Conversion {
  SpmdType from;
  SpmdType to;
  SpmdMove forward;
  SpmdMove backward;
  bool inside_axis_library;  ///< a declaration that only the library of an axis may make
};
std::span<const Conversion> conversions();
/// Errors: kInvalid where there is none, with the way round ("P has to become R or I first").
Result<Conversion> conversion(SpmdType from, SpmdType to);

/// How an operation uses its operands.
enum class SpmdUse : std::uint8_t {
  kNonlinear,        ///< pointwise, norm, softmax, attention
  kSum,              ///< a sum of its operands, or linear in one of them
  kContractWhole,    ///< a product summed over a dim that every coordinate has whole
  kContractSharded,  ///< a product summed over the dim that is sharded on the axis
};

/// The type of the result. Errors: kInvalid for operands that may not meet: I with R or V (the
/// missing conversion is the missing reduction of a gradient), P in anything nonlinear, P with R or
/// I in a sum (which would count them once a coordinate).
Result<SpmdType> mix(SpmdUse use, std::span<const SpmdType> operands);

/// How a parameter is used: its type on each axis, and, where copies of it live on several stages
/// of a pipeline, which.
struct ParamUse {
  std::string fqn;
  std::array<SpmdType, kNumAxes> types{};  ///< by Axis; R unless said otherwise
  std::vector<std::int64_t> stages;        ///< pp coordinates that hold a copy; empty: one

  SpmdType& on(Axis axis) { return types[static_cast<std::size_t>(axis)]; }
  SpmdType on(Axis axis) const { return types[static_cast<std::size_t>(axis)]; }
};

/// The stored type of a parameter with several uses on one axis: R if any use is R (an I use then
/// goes through R -> I). Errors: kInvalid where it is whole in one use and a part in another, or P.
Result<SpmdType> stored_type(std::span<const SpmdType> uses);

/// What is summed after the backward pass for one parameter. There is no other operation than SUM
/// and no other scale than 1: the loss is divided by the global count of tokens before backward.
struct GradReduction {
  std::string fqn;
  AxisSet axes;
  std::vector<std::int64_t> stages;  ///< then over these coordinates of pp

  /// "norm.weight: SUM over dp_replicate+dp_shard+cp+tp"
  std::string to_string() const;
  friend bool operator==(const GradReduction&, const GradReduction&) = default;
};

/// The rule: a gradient is summed over exactly the axes on which its parameter is R. Dense
/// parameters have types on dp_replicate, dp_shard, cp and tp, experts on dp_replicate, edp, ep and
/// etp; pp enters through `stages`. By FQN. Errors: kInvalid for a parameter named twice or of type
/// P.
Result<std::vector<GradReduction>> derive_grad_plan(std::span<const ParamUse> dense,
                                                    std::span<const ParamUse> experts);

/// The first line in which two plans differ, as "declared: ...; traced: ..."; empty if none.
std::string first_difference(std::span<const GradReduction> a, std::span<const GradReduction> b,
                             const std::string& name_a, const std::string& name_b);

}  // namespace sx
