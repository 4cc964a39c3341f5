#include "sextant/data/masks.h"

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {

namespace {

/// Writes segment `number` = [begin, end) of the row and counts it.
void close_segment(const RowMasks& row, std::int32_t begin, std::int32_t end,
                   RowMaskCounts& counts) {
  for (std::int32_t i = begin; i < end; ++i) {
    row.document_ids[static_cast<std::size_t>(i)] = counts.num_documents;
  }
  ++counts.num_documents;
  row.cu_seqlens[static_cast<std::size_t>(counts.num_documents)] = end;
  counts.max_seqlen = std::max(counts.max_seqlen, end - begin);
}

}  // namespace

RowMaskCounts fill_row_masks(const MaskOptions& options, std::span<const std::int32_t> tokens,
                             std::span<const std::int32_t> borders, const RowMasks& row) {
  const std::size_t s = tokens.size();
  SX_CHECK(row.positions.size() == s && row.document_ids.size() == s && row.loss_mask.size() == s &&
               row.cu_seqlens.size() == s + 1,
           "row arrays do not fit {} tokens", s);
  RowMaskCounts counts;
  row.cu_seqlens[0] = 0;
  std::size_t next_border = 0;
  std::int32_t segment = 0;  // first token of the attention segment
  std::int32_t position_zero = 0;
  for (std::size_t i = 0; i < s; ++i) {
    const auto place = static_cast<std::int32_t>(i);
    const bool border = next_border < borders.size() && borders[next_border] == place;
    const bool behind_eod = i > 0 && options.eod_id >= 0 && tokens[i - 1] == options.eod_id;
    if (border) ++next_border;
    if (border || (behind_eod && !options.inter_document && options.reset_attention)) {
      close_segment(row, segment, place, counts);
      segment = place;
    }
    if (border || (behind_eod && !options.inter_document && options.reset_positions)) {
      position_zero = place;
    }
    row.positions[i] = place - position_zero;
    const bool masked = options.eod_mask && options.eod_id >= 0 && tokens[i] == options.eod_id;
    row.loss_mask[i] = masked ? 0 : 1;
    counts.num_loss_tokens += row.loss_mask[i];
  }
  SX_CHECK(next_border == borders.size(), "borders do not ascend inside the row");
  close_segment(row, segment, static_cast<std::int32_t>(s), counts);
  std::fill(row.cu_seqlens.begin() + counts.num_documents + 1, row.cu_seqlens.end(),
            static_cast<std::int32_t>(s));
  return counts;
}

}  // namespace sx
