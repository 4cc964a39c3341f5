// Pairs written by megatron-core 0.19.2, and masks that its GPTDataset computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/data/indexed_writer.h"
#include "sextant/data/masks.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Json = nlohmann::json;

Json load(const char* name) {
  return Json::parse(read_file(test_data(std::string("megatron/") + name)).value());
}

TEST(MegatronPairs, AreReadAsRecorded) {
  const Json cases = load("pairs.json")["cases"];
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& row : cases) {
    const auto prefix = row["prefix"].get<std::string>();
    SCOPED_TRACE(prefix);
    const auto dataset =
        IndexedDataset::open(test_data("megatron/" + prefix), IndexedDataset::Validate::kFull)
            .value();
    EXPECT_EQ(to_string(dataset.type()), row["dtype"].get<std::string>());
    ASSERT_EQ(dataset.num_sequences(), row["sequences"].get<std::uint64_t>());
    std::vector<std::int64_t> lengths, marks, modes, last_offsets;
    for (std::uint64_t i = 0; i < dataset.num_sequences(); ++i) {
      lengths.push_back(dataset.sequence_length(i));
      modes.push_back(dataset.sequence_mode(i));
      if (i + 3 >= dataset.num_sequences()) last_offsets.push_back(dataset.sequence_offset(i));
    }
    for (std::uint64_t k = 0; k <= dataset.num_documents(); ++k)
      marks.push_back(dataset.document_mark(k));
    EXPECT_EQ(lengths, row["sequence_lengths"].get<std::vector<std::int64_t>>());
    EXPECT_EQ(marks, row["document_indices"].get<std::vector<std::int64_t>>());
    EXPECT_EQ(last_offsets, row["byte_offsets_last_three"].get<std::vector<std::int64_t>>());
    EXPECT_EQ(dataset.has_modes(), row.contains("sequence_modes"));
    if (dataset.has_modes()) {
      EXPECT_EQ(modes, row["sequence_modes"].get<std::vector<std::int64_t>>());
    }
    EXPECT_EQ(dataset.check_structure()->num_gaps, 0u);
  }
}

TEST(MegatronPairs, AreWrittenByteForByte) {
  TempDir dir;
  const Json cases = load("pairs.json")["cases"];
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& row : cases) {
    const auto prefix = row["prefix"].get<std::string>();
    SCOPED_TRACE(prefix);
    const auto dataset = IndexedDataset::open(test_data("megatron/" + prefix)).value();
    auto writer = IndexedWriter::create(dir / prefix, dataset.type(), dataset.has_modes()).value();
    std::vector<std::int32_t> tokens;
    for (std::uint64_t k = 0; k < dataset.num_documents(); ++k) {
      for (auto i = dataset.document_mark(k); i < dataset.document_mark(k + 1); ++i) {
        const auto sequence = static_cast<std::uint64_t>(i);
        tokens.resize(static_cast<std::size_t>(dataset.sequence_length(sequence)));
        ASSERT_TRUE(dataset.read_sequence(sequence, 0, tokens).ok());
        ASSERT_TRUE(writer.add_sequence(tokens, dataset.sequence_mode(sequence)).ok());
      }
      ASSERT_TRUE(writer.end_document().ok());
    }
    ASSERT_TRUE(writer.finish().ok());
    const std::string idx = read_file(dir / (prefix + ".idx")).value();
    const std::string bin = read_file(dir / (prefix + ".bin")).value();
    EXPECT_EQ(sha256_hex(idx), row["idx_sha256"].get<std::string>());
    EXPECT_EQ(sha256_hex(bin), row["bin_sha256"].get<std::string>());
    EXPECT_EQ(idx, read_file(test_data("megatron/" + prefix + ".idx")).value());
    EXPECT_EQ(bin, read_file(test_data("megatron/" + prefix + ".bin")).value());
  }
}

/// Tokens of document i as the generator of the recorded files makes them: formula, then the end of
/// document (0).
std::vector<std::int32_t> text(int i, int n, int salt, int vocab) {
  std::vector<std::int32_t> tokens;
  for (int j = 0; j + 1 < n; ++j) tokens.push_back(1 + (131 * i + 17 * j + 7 * salt) % (vocab - 1));
  if (n > 0) tokens.push_back(0);
  return tokens;
}

TEST(MegatronPairs, AreMadeAgainFromTheirFormulas) {
  TempDir dir;
  auto a = IndexedWriter::create(dir / "a", token_type_for_vocab(1000)).value();
  for (int i = 0; i < 120; ++i) {
    const int n = i == 0 || i == 41 || i == 119 ? 0 : 1 + (37 * i + 11) % 61;
    ASSERT_TRUE(a.add_document(text(i, n, 1, 1000)).ok());
  }
  ASSERT_TRUE(a.finish().ok());
  auto b = IndexedWriter::create(dir / "b", token_type_for_vocab(70000)).value();
  for (int i = 0; i < 80; ++i) {
    for (int s = 0; s < i % 4; ++s) {
      ASSERT_TRUE(b.add_sequence(text(i + 100 * s, (53 * i + 29 * s) % 47, 2, 70000)).ok());
    }
    ASSERT_TRUE(b.end_document().ok());
  }
  ASSERT_TRUE(b.finish().ok());
  auto c = IndexedWriter::create(dir / "c", TokenType::kUint16).value();
  for (int i = 0; i < 10; ++i) {
    const std::vector<std::int32_t> lengths{5 + i, 0, 40 - 3 * i};
    std::vector<std::int32_t> tokens;
    for (int k = 0; k < 3; ++k) {
      const auto part = text(i + k, lengths[static_cast<std::size_t>(k)], 3, 1000);
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    ASSERT_TRUE(c.add_document(tokens, lengths).ok());
  }
  ASSERT_TRUE(c.add_index(IndexedDataset::open(dir / "a").value()).ok());
  ASSERT_TRUE(c.finish().ok());
  for (const char* name : {"a.idx", "a.bin", "b.idx", "b.bin", "c.idx", "c.bin"}) {
    EXPECT_EQ(read_file(dir / name).value(),
              read_file(test_data(std::string("megatron/") + name)).value())
        << name;
  }
}

TEST(MegatronMasks, PositionsLossMaskAndBordersAreThoseRecorded) {
  int rows = 0;
  const Json cases = load("masks.json")["cases"];
  for (const Json& one : cases) {
    MaskOptions options;
    options.inter_document = one["inter_document_masking"];
    options.eod_mask = one["eod_mask_loss"];
    options.reset_positions = one["reset_position_ids"];
    options.reset_attention = one["reset_attention_mask"];
    options.eod_id = one["eod"];
    for (const Json& row : one["rows"]) {
      const auto tokens = row["tokens"].get<std::vector<std::int32_t>>();
      const auto recorded_loss = row["loss_mask"].get<std::vector<double>>();
      if (options.inter_document && one["prefix"] == "b")
        continue;  // borders inside its documents are no token's place
      // Filler rows and rows with padding have no counterpart: the native order never pads in
      // training. Padding shows in the loss mask, or as two zeros in a row, which stand nowhere
      // else in these files.
      const std::vector<std::int32_t> two_zeros{0, 0};
      bool padded = std::search(tokens.begin(), tokens.end(), two_zeros.begin(), two_zeros.end()) !=
                    tokens.end();
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        padded = padded || (recorded_loss[i] == 0 && !(options.eod_mask && tokens[i] == 0));
      }
      if (padded) continue;
      const std::size_t s = tokens.size();
      std::vector<std::int32_t> borders, recorded_cu;
      if (row.contains("cu_seqlens")) {
        for (const std::int32_t entry : row["cu_seqlens"].get<std::vector<std::int32_t>>()) {
          if (recorded_cu.empty() || recorded_cu.back() < entry) recorded_cu.push_back(entry);
        }
        for (const std::int32_t entry : recorded_cu) {
          if (entry > 0 && entry < static_cast<std::int32_t>(s)) borders.push_back(entry);
        }
      }
      std::vector<std::int32_t> positions(s), ids(s), cu(s + 1);
      std::vector<std::uint8_t> loss(s);
      const RowMaskCounts counts =
          fill_row_masks(options, tokens, borders, {positions, ids, cu, loss});
      EXPECT_EQ(positions, row["position_ids"].get<std::vector<std::int32_t>>());
      EXPECT_EQ(std::vector<double>(loss.begin(), loss.end()), recorded_loss);
      if (row.contains("cu_seqlens")) {
        EXPECT_EQ(std::vector<std::int32_t>(cu.begin(), cu.begin() + counts.num_documents + 1),
                  recorded_cu);
        EXPECT_EQ(counts.max_seqlen, row["max_seqlen"].get<std::int32_t>());
      }
      ++rows;
    }
  }
  EXPECT_EQ(rows, 23);
}

}  // namespace
}  // namespace sx
