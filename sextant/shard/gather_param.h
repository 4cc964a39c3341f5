#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sextant/dist/communicator.h"

namespace sx {

/// How one parameter lies on the ranks of the reference: cut by rows over `shard`, the same on all
/// ranks of `replicate`. `flat` holds all of them in ascending global rank, shard fastest.
struct GatherSpec {
  std::vector<std::int64_t> shape;                 ///< of the whole parameter
  std::optional<c10::ScalarType> compute_dtype{};  ///< of the gathered parameter; else the shard's
  std::optional<c10::ScalarType> reduce_dtype{};   ///< of gradients on the wire; else the shard's
  bool flat_order = false;  ///< one fold over all ranks instead of shard, then replicate
  Communicator* shard = nullptr;
  Communicator* flat = nullptr;  ///< for flat_order
};

/// Rows of coordinate `coord` of `degree`: ceil(n / degree) each, the last ones short or empty.
struct ShardRows {
  std::int64_t begin = 0, end = 0;
};
ShardRows shard_rows(const std::vector<std::int64_t>& shape, std::int64_t degree,
                     std::int64_t coord);

/// The whole parameter from its shards, as one differentiable function: forward all_gather and
/// cast, backward cast, reduce_scatter, cast back. A model that calls it for each parameter at each
/// use is sharded data parallelism without hooks, buffers or state, correct by inspection: the
/// reference whose bits every preset of the engine must give. Never optimised.
///
/// `shard`: own rows, [rows, ...], a leaf. With flat_order the gradient is complete; without, it is
/// the sum over `shard` and the caller adds over replicas.
at::Tensor gather_param(const at::Tensor& shard, const GatherSpec& spec);

/// The backward half by itself: own rows of the sum over ranks of `grad` (whole parameter), in the
/// shard's dtype.
at::Tensor reduce_grad(const at::Tensor& grad, const GatherSpec& spec, c10::ScalarType dtype);

}  // namespace sx
