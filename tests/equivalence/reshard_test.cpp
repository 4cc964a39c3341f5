// Complaint 20, as far as data-parallel layouts go: what one layout saved, any other goes on from.
// The whole way: recipe, model, engine, loader, checkpoint files, and back.
#include "tests/equivalence/reshard_cases.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

TEST(ReshardLayouts, OneStepFurtherRoundTheTwelve) {
  ReshardCases cases;
  const int n = cases.num_layouts();
  for (int i = 0; i < n; ++i) cases.save(i);
  for (int i = 0; i < n; ++i) cases.move(i, (i + 5) % n);
}

}  // namespace
}  // namespace sx
