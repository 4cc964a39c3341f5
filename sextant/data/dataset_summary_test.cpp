#include "sextant/data/dataset_summary.h"

#include <gtest/gtest.h>

#include "sextant/data/indexed_writer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

IndexedDataset write_pair(const std::string& prefix,
                          const std::vector<std::vector<std::int32_t>>& documents) {
  auto writer = IndexedWriter::create(prefix, TokenType::kUint16).value();
  for (const auto& tokens : documents) {
    EXPECT_TRUE((tokens.empty() ? writer.end_document() : writer.add_document(tokens)).ok());
  }
  EXPECT_TRUE(writer.finish().ok());
  return IndexedDataset::open(prefix).value();
}

TEST(DatasetSummary, CountsDocumentsLengthsAndTheirLastToken) {
  TempDir dir;
  const auto pair = write_pair(dir / "x", {{1, 9}, {}, {9}, {1, 2, 3, 9}, {4, 5}});
  const DatasetSummary summary = summarize_dataset(pair, true).value();
  EXPECT_EQ(summary.num_documents, 5u);
  EXPECT_EQ(summary.num_sequences, 4u);
  EXPECT_EQ(summary.empty_documents, 1u);
  EXPECT_EQ(summary.structure.num_tokens, 9u);
  EXPECT_EQ(summary.min_length, 0u);
  EXPECT_EQ(summary.median_length, 2u);
  EXPECT_EQ(summary.max_length, 4u);
  EXPECT_EQ(summary.length_histogram, (std::vector<std::uint64_t>{1, 1, 2, 1}));
  EXPECT_EQ(summary.last_token, 9);
  EXPECT_DOUBLE_EQ(summary.last_token_share, 0.75);
  EXPECT_EQ(summary.max_token, 9);
  EXPECT_NE(summary.to_text().find("9 ends 75.0 % of the documents"), std::string::npos);
  EXPECT_EQ(summary.to_json()["document_length_histogram"][3]["tokens"], "4-7");
}

TEST(DatasetSummary, OfAnEmptyPair) {
  TempDir dir;
  const DatasetSummary summary = summarize_dataset(write_pair(dir / "x", {}), true).value();
  EXPECT_EQ(summary.num_documents, 0u);
  EXPECT_EQ(summary.last_token, -1);
  EXPECT_FALSE(summary.to_text().empty());
}

}  // namespace
}  // namespace sx
