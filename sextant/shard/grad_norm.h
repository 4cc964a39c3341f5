#pragma once

#include <span>

#include "sextant/dist/communicator.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

struct GradNorm {
  double sum_of_squares = 0.0;
  double norm = 0.0;   ///< square root of it
  bool finite = true;  ///< false when any gradient element is NaN or infinite
};

/// L2 norm over all gradients, every logical element counted once; the same bits on every rank and
/// for every degree.
///
/// Gradients: replicated over `replicas` (equal on all its ranks), fp64 fp32 bf16 or fp16,
///            contiguous; each rank squares a share of the blocks, one all_reduce spreads them.
/// Order:     squares are summed in fp64 per parameter in fixed blocks of 4,096 elements, blocks
///            in index order, parameters in the order given.
GradNorm grad_norm(std::span<const NamedTensor> grads, Communicator& replicas);

/// max_norm / (norm + 1e-6), at most 1; 1 when max_norm <= 0 (clipping off) or the norm is not
/// finite.
double clip_coefficient(double norm, double max_norm);

/// Scales all gradients in place by `clip_coefficient` if that is below 1; returns the coefficient
/// used.
double clip_grads(std::span<const NamedTensor> grads, double norm, double max_norm);

}  // namespace sx
