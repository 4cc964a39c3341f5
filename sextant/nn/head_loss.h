#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sx {

/// Most bytes of logits at a time: few chunks, because each reads the whole weight.
inline constexpr std::int64_t kHeadChunkBytes = std::int64_t{128} << 20;

/// Head and loss in one pass: the value of `cross_entropy_sum(linear(x, weight), ...)`, without the
/// logits of all tokens ever being in memory together.
///
/// Tokens are taken in chunks. For each chunk the logits are made, turned into the gradient of the
/// loss where they lie, and multiplied into the gradients of x and of the weight at once, with the
/// loss's own gradient taken as `grad_seed`; backward multiplies by what it is instead. So a
/// chunk's logits are computed once and are gone when the next chunk begins; without grad mode only
/// the loss is computed.
///
/// fp16 gradients of many tokens vanish below 6e-8: with the seed of the coming backward given here
/// they are scaled before they are rounded.
///
/// Shapes:  x_BSH; weight_VH of x's dtype with V >= vocab_size, rows from vocab_size on are padding
///          and get a zero gradient; targets and mask as in `cross_entropy_sum`.
/// Result:  0-dim, fp32 (fp64 for fp64 inputs).
/// Memory:  one chunk of logits (`chunk_bytes`, at least one row), and the two gradients until
/// backward. Errors:  ContractError if a counted target is >= vocab_size, or shapes do not fit.
at::Tensor head_cross_entropy_sum(const at::Tensor& x_BSH, const at::Tensor& weight_VH,
                                  const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS,
                                  std::int64_t vocab_size,
                                  std::int64_t chunk_bytes = kHeadChunkBytes,
                                  double grad_seed = 1.0);

}  // namespace sx
