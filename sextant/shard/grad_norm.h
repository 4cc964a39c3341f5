#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/shard/exact_sum.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

struct GradNorm {
  double sum_of_squares = 0.0;
  double norm = 0.0;   ///< square root of it
  bool finite = true;  ///< false when any gradient element is NaN or infinite
};

/// What the ranks tell each other once per step: the norm, and sums of small numbers beside it
/// (tokens, votes).
struct StepSums {
  GradNorm norm;
  std::vector<std::int64_t> sums;
};

/// One all_reduce over all ranks. `own` holds the squares of the gradient elements that this rank
/// answers for; over all ranks every logical element is in exactly one. The result is the same on
/// every rank, and the same number for every layout and mesh, since the sum is exact.
StepSums reduce_step_sums(const ExactSum& own, Communicator& world,
                          std::span<const std::int64_t> sums = {});

/// L2 norm over gradients that are equal on all ranks of `replicas`: each rank squares a share.
/// Gradients are contiguous, fp64 fp32 bf16 or fp16.
GradNorm grad_norm(std::span<const NamedTensor> grads, Communicator& replicas);

/// max_norm / (norm + 1e-6), at most 1; 1 when max_norm <= 0 (clipping off) or the norm is not
/// finite.
double clip_coefficient(double norm, double max_norm);

/// Scales all gradients in place by `clip_coefficient` if that is below 1; returns the coefficient
/// used.
double clip_grads(std::span<const NamedTensor> grads, double norm, double max_norm);

}  // namespace sx
