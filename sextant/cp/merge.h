#pragma once

#include <ATen/core/Tensor.h>

namespace sx {

/// Attention over some keys joins attention over others, in place: afterwards `out` and `lse` are
/// those over both. lse is the logarithm of the softmax's denominator.
///
/// Shapes: out_BTND, lse_BTN (fp32 or fp64, both alike); block_BTND and block_lse_BTN of the same
///         dtype; views are welcome where D is dense.
/// A row with lse -inf has seen no key and its out is 0; such a block changes no bit.
/// Source: the recurrence of FlashAttention (arXiv 2205.14135 section 3.1) with one division less:
///         out -= sigmoid(block_lse - lse) (out - block).
void merge_attention(const at::Tensor& out_BTND, const at::Tensor& lse_BTN,
                     const at::Tensor& block_BTND, const at::Tensor& block_lse_BTN);

/// A learned logit per head takes part in the softmax and has no value: once, after the last block.
/// sink_N of the dtype of `out`.
void merge_sink(const at::Tensor& out_BTND, const at::Tensor& lse_BTN, const at::Tensor& sink_N);

/// Gradient of the sink from the tokens given: sum over them of -exp(sink - lse) (grad . out), with
/// out and lse after `merge_sink`.
at::Tensor sink_gradient(const at::Tensor& grad_BTND, const at::Tensor& out_BTND,
                         const at::Tensor& lse_BTN, const at::Tensor& sink_N);

}  // namespace sx
