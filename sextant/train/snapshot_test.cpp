#include "sextant/train/snapshot.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

TEST(TrainProgress, CountsSkippedStepsInAllAndInARow) {
  TrainProgress progress;
  std::vector<std::int64_t> in_row;
  for (const bool skipped : {true, true, false, true, false, false}) {
    progress.add_step(64, skipped);
    in_row.push_back(progress.skipped_in_row);
  }
  EXPECT_EQ(in_row, (std::vector<std::int64_t>{1, 2, 0, 1, 0, 0}));
  EXPECT_EQ(progress, (TrainProgress{.step = 6, .tokens = 384, .skipped_steps = 3}));
}

}  // namespace
}  // namespace sx
