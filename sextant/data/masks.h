#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sx {

/// How document borders act inside a row.
struct MaskOptions {
  bool inter_document =
      true;               ///< attention and positions stay inside documents (true document borders)
  bool eod_mask = false;  ///< no loss where the input is `eod_id`
  bool reset_positions = false;  ///< without inter_document: positions restart behind each `eod_id`
  bool reset_attention =
      false;  ///< without inter_document: document ids and cu_seqlens change behind each `eod_id`
  std::int32_t eod_id = -1;  ///< < 0 = none
  /// Megatron-LM's order and fill-in-the-middle: fills samples that are too short, gives no loss as
  /// a target, and becomes 0. < 0 = an id that no data have.
  std::int32_t pad_id = -1;
};

/// One row's arrays, all of length s but cu_seqlens (s + 1).
struct RowMasks {
  std::span<std::int32_t> positions;
  std::span<std::int32_t> document_ids;
  std::span<std::int32_t> cu_seqlens;
  std::span<std::uint8_t> loss_mask;
};
/// What fill_row_masks counted.
struct RowMaskCounts {
  std::int32_t num_documents = 0;
  std::int32_t max_seqlen = 0;
  std::uint64_t num_loss_tokens = 0;
};

/// Fills positions, document ids, cu_seqlens and loss mask of one row from its input tokens and
/// `borders`: the places in the row (ascending, without repeats, inside (0, s)) at which a segment
/// begins. At each of them positions and document ids restart; the caller gives document and block
/// borders with inter_document, else block borders only.
RowMaskCounts fill_row_masks(const MaskOptions& options, std::span<const std::int32_t> tokens,
                             std::span<const std::int32_t> borders, const RowMasks& row);

}  // namespace sx
