#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sx::detail {

// Words of this file's own: nvcc then reads no header of LibTorch.
enum class FoldType { kDouble, kFloat, kBFloat16, kHalf, kLong, kInt, kChar, kByte };
enum class FoldOp { kSum, kMax, kMin };

/// `fold` (fold.h) on the device: `slices` holds `num_inputs` runs of `numel` elements behind each
/// other, in rank order; `out` may be any of them. Ordered by `stream`.
cudaError_t fold_cuda(FoldType type, FoldOp op, const std::byte* slices, int num_inputs,
                      std::byte* out, std::int64_t numel, cudaStream_t stream);

}  // namespace sx::detail
