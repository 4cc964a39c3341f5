#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace sx {

/// y = forward(x) of a part of a model, many tensors in, one out.
using Segment = std::function<at::Tensor(at::TensorList inputs)>;

/// Runs `forward(inputs)` without keeping what its operations would save; backward runs it again on
/// the same inputs and goes on from there. Same bits as the plain run.
///
/// `forward` is kept until backward: it captures by value what may be gone then, and what it reads
/// besides its inputs (parameters) must have its memory again. Without grad mode it is a plain
/// call. Nested up to kMaxRecomputeDepth levels: deeper, LibTorch leaves the rank's thread.
/// Source:  Chen et al., "Training deep nets with sublinear memory cost", arXiv 1604.06174.
at::Tensor recompute(const Segment& forward, at::TensorList inputs);
inline constexpr int kMaxRecomputeDepth = 8;

}  // namespace sx
