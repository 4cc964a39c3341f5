#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/ckpt/checkpoint.h"

namespace sx {

/// A tensor that is in both checkpoints and is not the same.
struct TensorDifference {
  std::string name;
  std::string form;         ///< not empty: dtype or shape differ, and how; nothing else is compared
  std::int64_t count = 0;   ///< elements whose bits differ
  std::int64_t first = -1;  ///< row-major index of the first of them
  double max_abs = 0;       ///< largest |a - b|; NaN when one of them is not a number there
};

struct CheckpointDifference {
  std::vector<std::string> only_a, only_b;  ///< names of tensors
  std::vector<TensorDifference> tensors;
  std::vector<std::string> states;  ///< states that differ or are on one side alone
  std::int64_t equal = 0;           ///< tensors whose bits agree
  bool same() const {
    return only_a.empty() && only_b.empty() && tensors.empty() && states.empty();
  }
  std::string to_text() const;
  nlohmann::ordered_json to_json() const;
};

/// Compares contents, however either is cut, block by block: memory does not depend on the tensors.
/// Errors: those of reading.
Result<CheckpointDifference> diff_checkpoints(const Checkpoint& a, const Checkpoint& b);

}  // namespace sx
