// The pinned texts and the tree agree.
#include <gtest/gtest.h>

#include <set>

#include "sextant/base/fs.h"
#include "tests/golden/golden_texts.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

TEST(Golden, TextsAreAsPinned) {
  for (const auto& [path, text] : golden_texts()) {
    const auto pinned = read_file(source_file(path));
    ASSERT_TRUE(pinned.ok()) << path << " is missing; build update_golden";
    EXPECT_EQ(*pinned, text) << path << " differs; if the change is wanted, build update_golden";
  }
}

TEST(Golden, NoPinnedHelpIsLeftOver) {
  const auto texts = golden_texts();
  for (const auto& entry : fs::directory_iterator(source_file("tests/golden/help"))) {
    EXPECT_TRUE(texts.contains("tests/golden/help/" + entry.path().filename().string()))
        << entry.path();
  }
}

TEST(Golden, HelpFitsTheScreen) {
  for (const auto& [path, text] : golden_texts()) {
    if (!path.starts_with("tests/golden/help/")) continue;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 132u) << path << ": " << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace sx
