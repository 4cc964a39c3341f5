#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/mesh/axis.h"

namespace sx {

/// The degrees of a mesh. Each is at least 1; "derive it" is the recipe's business.
struct ParallelDims {
  std::int64_t pp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;

  /// pp * dp_replicate * dp_shard * cp * tp.
  std::int64_t world_size() const { return pp * dp_replicate * dp_shard * cp * tp; }
  /// dp_shard * cp * tp / (ep * etp): the ranks that share experts' gradients inside one replica.
  std::int64_t edp() const { return dp_shard * cp * tp / (ep * etp); }
  std::int64_t degree(Axis axis) const;

  /// Every rule that does not hold, with both numbers: each degree is at least 1 (SX2-003), the
  /// product stays below 2^31 (SX2-003), ep * etp divides dp_shard * cp * tp (SX2-011).
  std::vector<Diagnostic> faults() const;
  /// As faults(), and the product of the dense degrees must be `world_size` (SX2-010).
  std::vector<Diagnostic> faults(std::int64_t world_size) const;

  /// "pp2 dp_replicate2 dp_shard4": degrees above 1; "1 rank" when there are none.
  std::string to_string() const;

  friend bool operator==(const ParallelDims&, const ParallelDims&) = default;
};

}  // namespace sx
