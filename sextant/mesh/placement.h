#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace sx {

/// The tensor is cut along `dim`: coordinate c of W has rows [c*k, min((c+1)*k, n)) with k =
/// ceil(n/W), so trailing coordinates may be short or empty.
struct Shard {
  int dim = 0;
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Every coordinate has the whole tensor.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

enum class PartialOp : std::uint8_t { kSum, kMax, kMin };

/// Every coordinate has a term of the whole size; the tensor is their sum (or maximum, minimum).
struct Partial {
  PartialOp op = PartialOp::kSum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

/// How a tensor lies on one axis of the mesh.
using Placement = std::variant<Replicate, Shard, Partial>;

/// "shard(0)", "replicate", "partial(sum)".
std::string to_string(const Placement& placement);

}  // namespace sx
