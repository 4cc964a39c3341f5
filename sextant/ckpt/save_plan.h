#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sextant/ckpt/checkpoint.h"

namespace sx {

/// What this rank writes of one of its parts: the elements [begin, end) of the part's own order.
struct PlannedWrite {
  std::size_t part = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const PlannedWrite&, const PlannedWrite&) = default;
};

/// This rank's share of its parts, by part. A rank needs only its own list: parts that n ranks hold
/// in common are laid end to end by bytes, and the c-th copy takes the c-th n-th of that line. So
/// every element is written by one rank, and equal holders write equal bytes (to one element).
/// Errors: ContractError for parts of one copy group that differ in `copy`.
std::vector<PlannedWrite> plan_writes(std::span<const TensorPart> parts);

/// A rank's parts, those among them that every rank holds whole.
struct AllParts {
  std::vector<TensorPart> model, optim;
};
AllParts all_parts(const CheckpointContent& content, const Communicator& world);

}  // namespace sx
