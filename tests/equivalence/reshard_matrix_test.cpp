// All 12 x 12 pairs of layouts.
#include <gtest/gtest.h>

#include "tests/equivalence/reshard_cases.h"

namespace sx {
namespace {

TEST(ReshardMatrix, TwelveTimesTwelveLayouts) {
  ReshardCases cases;
  const int n = cases.num_layouts();
  int same_world = 0, pairs = 0;
  for (int i = 0; i < n; ++i) cases.save(i);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      ++pairs;
      same_world += cases.move(i, j) ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << "pair " << i << ", " << j;
    }
  }
  EXPECT_EQ(pairs, 144);
  EXPECT_GE(same_world, 12);
}

}  // namespace
}  // namespace sx
