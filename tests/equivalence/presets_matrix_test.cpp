// The whole matrix of presets_test.cpp: all meshes of 1, 2, 4 and 8 ranks, fp64 and fp32.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/equivalence/preset_matrix.h"

namespace sx {
namespace {

TEST(PresetMatrix, EqualsTheReferenceOnEveryMesh) {
  const int cells = run_matrix({{1, 1},
                                {1, 2},
                                {2, 1},
                                {1, 4},
                                {2, 2},
                                {4, 1},
                                {1, 8},
                                {2, 4},
                                {4, 2},
                                {8, 1},
                                {1, 3},
                                {1, 5}},
                               {c10::kDouble, c10::kFloat}, {1, 2, 4});
  std::fprintf(stderr, "%d cells\n", cells);
  RecordProperty("cells", cells);
}

}  // namespace
}  // namespace sx
