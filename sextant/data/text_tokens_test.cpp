#include "sextant/data/text_tokens.h"

#include <gtest/gtest.h>

#include "sextant/base/fs.h"
#include "sextant/data/dataset.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::vector<std::int32_t> all_of(const TokenSource& source) {
  std::vector<std::int32_t> tokens(source.num_tokens());
  EXPECT_TRUE(source.read(0, tokens).ok());
  return tokens;
}

TEST(TextTokens, AFileIsOneDocumentAndJsonLinesAreMany) {
  const TempDir dir;
  const std::string text = (dir / "a.txt").string(), lines = (dir / "b.jsonl").string();
  ASSERT_TRUE(write_file_atomic(text, "ab\n").ok());
  ASSERT_TRUE(
      write_file_atomic(lines, "{\"text\":\"a\"}\n{\"text\":\"\"}\n{\"text\":\"bc\"}\n").ok());
  EXPECT_TRUE(is_text_path(text));
  EXPECT_FALSE(is_text_path((dir / "pair").string()));
  const auto one = read_text_source(text, {}, 256).value();
  EXPECT_EQ(all_of(*one), (std::vector<std::int32_t>{'a', 'b', '\n', 256}));
  EXPECT_EQ(one->num_documents(), 1u);
  const auto three = read_text_source(lines, {}, 256).value();
  EXPECT_EQ(all_of(*three), (std::vector<std::int32_t>{'a', 256, 256, 'b', 'c', 256}));
  EXPECT_EQ(three->num_documents(), 3u);
  EXPECT_EQ(three->document_start(2), 3u);
  const auto dataset =
      Dataset::open({.paths = {lines, text}, .weights = {}, .part = SplitPart::kAll, .encode = {}});
  ASSERT_TRUE(dataset.ok()) << dataset.error().to_string();
  EXPECT_EQ((*dataset)->num_tokens(), 10u);
}

TEST(TextTokens, BrokenLinesAreErrorsWithTheRecord) {
  const TempDir dir;
  const std::string lines = (dir / "b.jsonl").string();
  ASSERT_TRUE(write_file_atomic(lines, "{\"text\":\"a\"}\n{\"title\":\"\"}\n").ok());
  const auto source = read_text_source(lines, {}, 256);
  ASSERT_FALSE(source.ok());
  EXPECT_NE(source.error().message.find("record 2"), std::string::npos) << source.error().message;
}

}  // namespace
}  // namespace sx
