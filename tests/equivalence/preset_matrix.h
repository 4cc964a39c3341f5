#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/equivalence/reference_run.h"

namespace sx {

/// Three blocks of width 7 and a head: over 2, 3, 4 and 8 ranks rows leave short and empty shards.
TestModel make_stack();

struct Variant {
  std::string name;
  Policy policy;
};
/// Presets with the layouts they can have; with more than one replica also with optimizer state
/// over replicas.
std::vector<Variant> variants(bool over_replicas);

struct MeshSize {
  std::int64_t replicas, shards;
};

/// Meshes x orders x accumulation x microbatches x dtypes x variants, each against the reference;
/// returns the number of cells. A test failure per cell that differs, at most 60.
int run_matrix(const std::vector<MeshSize>& meshes, const std::vector<c10::ScalarType>& dtypes,
               const std::vector<std::int64_t>& microbatches);

}  // namespace sx
