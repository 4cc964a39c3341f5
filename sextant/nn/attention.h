#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sx {

/// A run of tokens of one document: rows [row, row + num_rows) of the batch, tokens [start, start +
/// length). num_rows > 1 only for segments at the same place in neighbouring rows.
struct AttentionSegment {
  std::int64_t row = 0;
  std::int64_t num_rows = 1;
  std::int64_t start = 0;
  std::int64_t length = 0;
  friend bool operator==(const AttentionSegment&, const AttentionSegment&) = default;
};

/// One segment that covers B rows of S tokens: no document border anywhere.
std::vector<AttentionSegment> whole_rows(std::int64_t batch, std::int64_t seq_len);
/// Segments of equal neighbouring ids, row by row. document_ids_BS: int32 or int64 on the CPU.
std::vector<AttentionSegment> document_segments(const at::Tensor& document_ids_BS);

/// Causal attention inside each segment; nothing crosses a border. Differentiable.
///
/// Shapes:  q_BSND, k_BSGD, v_BSGD with G dividing N (grouped queries); the segments tile [B, S].
/// Returns out_BSND. Scale:   1/sqrt(D). Cost:    sum of length^2 per row, no mask and no score
/// matrix; saves q, k, v, out and 4 bytes per head and token
///          (8 in fp64).
/// Source:  FlashAttention (arXiv 2205.14135) as LibTorch has it for the CPU.
at::Tensor causal_attention(const at::Tensor& q_BSND, const at::Tensor& k_BSGD,
                            const at::Tensor& v_BSGD,
                            const std::vector<AttentionSegment>& segments);

/// Attention of S new queries over T >= S keys, the queries being the last S of the T tokens. No
/// gradient. Shapes: q_BSND, k_BTGD, v_BTGD.
at::Tensor cached_attention(const at::Tensor& q_BSND, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD);

}  // namespace sx
