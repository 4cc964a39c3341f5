#include <gtest/gtest.h>

#include "sextant/recipe/command_line.h"

namespace sx {
namespace {

TEST(NearestName, CountsSwapsAsOneStep) {
  const std::vector<std::string> names{"crawl", "tokenize", "train", "data"};
  EXPECT_EQ(nearest_name("crwal", names), "crawl");
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("tokenise", names), "tokenize");
  EXPECT_EQ(nearest_name("dat", names), "data");
}

TEST(NearestName, IsEmptyBeyondThreeStepsOrWhenNothingIsShared) {
  const std::vector<std::string> names{"crawl", "set"};
  EXPECT_EQ(nearest_name("craaaaawl", names), "");
  EXPECT_EQ(nearest_name("xyz", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(10000, 'x'), names), "");
}

TEST(NearestName, OfEqualsTheFirst) {
  const std::vector<std::string> names{"abcx", "abcy"};
  EXPECT_EQ(nearest_name("abcz", names), "abcx");
}

}  // namespace
}  // namespace sx
