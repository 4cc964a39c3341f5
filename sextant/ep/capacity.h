#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sextant/dist/communicator.h"

namespace sx {

/// Whose tokens share an expert's places.
enum class CapacityScope : std::uint8_t {
  kSequence,  ///< those of one sequence, wherever its parts lie: does not depend on the layout
  kRank,      ///< those of one microbatch of a rank; depends on the layout
};

/// Who gets a place.
enum class CapacityPolicy : std::uint8_t {
  kProbs,     ///< the largest weights, equal ones by position
  kPosition,  ///< the first tokens
};

struct CapacityOptions {
  double factor = 0.0;  ///< 0: nothing is dropped
  CapacityScope scope = CapacityScope::kSequence;
  CapacityPolicy policy = CapacityPolicy::kProbs;
};

/// Places of an expert: ceil(tokens * topk / experts * factor), free of the rounding of the
/// product.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t topk, std::int64_t num_experts,
                             double factor);

struct CapacityInput {
  at::Tensor experts_TK{};  ///< int32, -1 = not routed
  at::Tensor weights_TK{};
  std::int64_t num_sequences = 1;  ///< each has T / num_sequences own tokens
  at::Tensor padding_T{};    ///< bool, may be undefined; padding takes no place and makes none
  at::Tensor positions_T{};  ///< int64 places in the sequence; undefined: parts follow one another
  std::int64_t num_experts = 0;
};

/// `experts_TK` with -1 for pairs without a place. The same on every layout with scope kSequence:
/// then the parts of a sequence exchange their choices over `sequence`, whose coordinates have the
/// same sequences.
at::Tensor apply_capacity(const CapacityInput& input, const CapacityOptions& options,
                          Communicator& sequence);

}  // namespace sx
