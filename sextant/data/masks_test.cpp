#include "sextant/data/masks.h"

#include <gtest/gtest.h>

#include <random>

#include "sextant/base/rng.h"

namespace sx {
namespace {

constexpr std::int32_t kEod = 0;

struct Row {
  explicit Row(std::size_t s) : positions(s), ids(s), cu(s + 1), loss(s) {}
  RowMasks spans() { return {positions, ids, cu, loss}; }
  std::vector<std::int32_t> positions, ids, cu;
  std::vector<std::uint8_t> loss;
};

/// Who may look at whom, by Megatron-LM's rule: rows behind an end of document do not see columns
/// up to and with it.
std::vector<std::vector<bool>> visible(const std::vector<std::int32_t>& tokens) {
  const std::size_t s = tokens.size();
  std::vector<std::vector<bool>> see(s, std::vector<bool>(s, false));
  for (std::size_t i = 0; i < s; ++i) {
    for (std::size_t j = 0; j <= i; ++j) see[i][j] = true;
  }
  for (std::size_t e = 0; e < s; ++e) {
    if (tokens[e] != kEod) continue;
    for (std::size_t i = e + 1; i < s; ++i) {
      for (std::size_t j = 0; j <= e; ++j) see[i][j] = false;
    }
  }
  return see;
}

// All option pairs over random places of the end of document, also first, last and doubled.
TEST(RowMasks, EqualTheSquareMatrixForm) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream random(seed, "test.masks");
  std::uint64_t draw = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> tokens(24);
    for (auto& token : tokens) token = random.u64(draw++) % 5 == 0 ? kEod : 7;
    if (round % 4 == 0) tokens.front() = kEod;
    if (round % 4 == 1) tokens.back() = kEod;
    if (round % 4 == 2) tokens[10] = tokens[11] = kEod;
    MaskOptions options;
    options.inter_document = false;
    options.eod_id = kEod;
    options.eod_mask = (round & 1) != 0;
    options.reset_positions = (round & 2) != 0;
    options.reset_attention = (round & 4) != 0;
    Row row(tokens.size());
    const RowMaskCounts counts = fill_row_masks(options, tokens, {}, row.spans());
    const auto see = visible(options.reset_attention ? tokens : std::vector<std::int32_t>(24, 7));
    std::int32_t zero = 0;
    std::uint64_t in_loss = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::size_t j = 0; j <= i; ++j)
        EXPECT_EQ(row.ids[i] == row.ids[j], see[i][j]) << i << ' ' << j;
      if (i > 0 && options.reset_positions && tokens[i - 1] == kEod)
        zero = static_cast<std::int32_t>(i);
      EXPECT_EQ(row.positions[i], static_cast<std::int32_t>(i) - zero);
      EXPECT_EQ(row.loss[i], options.eod_mask && tokens[i] == kEod ? 0 : 1);
      in_loss += row.loss[i];
    }
    EXPECT_EQ(counts.num_loss_tokens, in_loss);
    EXPECT_EQ(counts.num_documents, row.ids.back() + 1);
  }
}

TEST(RowMasks, SegmentsFollowTheBorders) {
  const std::vector<std::int32_t> tokens{3, 3, 3, 3, 3, 3}, borders{2, 5};
  Row row(6);
  const RowMaskCounts counts = fill_row_masks(MaskOptions{}, tokens, borders, row.spans());
  EXPECT_EQ(row.positions, (std::vector<std::int32_t>{0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(row.ids, (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(row.cu, (std::vector<std::int32_t>{0, 2, 5, 6, 6, 6, 6}));
  EXPECT_EQ(counts.num_documents, 3);
  EXPECT_EQ(counts.max_seqlen, 3);
  EXPECT_EQ(counts.num_loss_tokens, 6u);
}

}  // namespace
}  // namespace sx
