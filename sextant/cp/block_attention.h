#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sextant/cp/cp_plan.h"

namespace sx {

// Letters: B rows, T tokens (Q queries, K keys), N query heads, G key/value heads, D head dim.

/// Query heads [query, query + num_query) that share key/value heads [key, key + num_key) in equal
/// groups: num_key divides num_query.
struct HeadRun {
  std::int64_t query = 0;
  std::int64_t num_query = 0;
  std::int64_t key = 0;
  std::int64_t num_key = 0;
  friend bool operator==(const HeadRun&, const HeadRun&) = default;
};

/// Everything about one call beside the tensors.
struct BlockOptions {
  AttentionMask mask;
  BlockDtype dtype = BlockDtype::kFp32;
  /// As few runs as cover the query heads; one for a whole model. Heads a rank has after they were
  /// scattered may begin and end inside a group.
  std::vector<HeadRun> heads;
};

/// One run of all heads. Requires: the key heads divide the query heads.
std::vector<HeadRun> whole_heads(const at::Tensor& q_BTND, const at::Tensor& k_BTGD);

/// What attention over some keys gave: out 0 and lse -inf where no key was seen. fp32, or fp64 for
/// fp64.
struct AttentionState {
  at::Tensor out_BTND;
  at::Tensor lse_BTN;
};
/// No key seen yet by the queries.
AttentionState empty_state(const at::Tensor& q_BTND);
/// The dtype in which blocks are merged and their gradients added: fp64 for fp64, else fp32.
c10::ScalarType merge_dtype(c10::ScalarType dtype);

/// One block of queries [B, Q, N, D] and keys, values [B, K, G, D] (views; D dense; sizes as the
/// block says). Scale 1/sqrt(D). No mask is made but for kBand. Never NaN for finite inputs.
///
/// On CPUs LibTorch's flash kernel, elsewhere products and a softmax over [Q, K] scores.
AttentionState block_attention(const at::Tensor& q_BQND, const at::Tensor& k_BKGD,
                               const at::Tensor& v_BKGD, const AttentionBlock& block,
                               const BlockOptions& options);

struct AttentionGrads {
  at::Tensor q, k, v;  ///< shapes of the inputs
};
/// Gradients of one block from out and lse over all keys (not only the block's): the sum over the
/// blocks is the gradient of the whole. In the merge dtype.
/// Source: FlashAttention (arXiv 2205.14135), algorithm 4.
AttentionGrads block_attention_backward(const at::Tensor& grad_BQND, const at::Tensor& q_BQND,
                                        const at::Tensor& k_BKGD, const at::Tensor& v_BKGD,
                                        const AttentionState& state, const AttentionBlock& block,
                                        const BlockOptions& options);

/// Merges the blocks, in their order, into the state. q_BTND with the state's tokens.
void attend(AttentionState& state, const at::Tensor& q_BTND, const at::Tensor& k_BKGD,
            const at::Tensor& v_BKGD, std::span<const AttentionBlock> blocks,
            const BlockOptions& options);

/// Adds the blocks' gradients, in their order, to `grads` (merge dtype, shapes of q, k, v).
void attend_backward(AttentionGrads& grads, const at::Tensor& grad_BTND, const at::Tensor& q_BTND,
                     const at::Tensor& k_BKGD, const at::Tensor& v_BKGD,
                     const AttentionState& state, std::span<const AttentionBlock> blocks,
                     const BlockOptions& options);

}  // namespace sx
