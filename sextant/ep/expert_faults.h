#pragma once

#include <cstdint>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/mesh/parallel_dims.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// Degrees of ep that both the number of experts and the ranks they may be spread over allow,
/// ascending. `ranks`: dp_shard * cp * tp / etp.
std::vector<std::int64_t> legal_ep(std::int64_t num_experts, std::int64_t ranks);

/// What is wrong with spreading the experts of `shape` over `dims`, each with the legal values
/// (SX2-023); empty when nothing is. That ep * etp divides dp_shard * cp * tp is
/// ParallelDims::faults' affair.
std::vector<Diagnostic> expert_faults(const ModelShape& shape, const ParallelDims& dims);

}  // namespace sx
