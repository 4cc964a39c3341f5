#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sx {

/// Number of tokens that count in the loss: mask 1 and target >= 0. Summed over all microbatches
/// and ranks it is the divisor of the training loss.
std::int64_t count_loss_tokens(const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS);

/// Targets as the kernels take them.
struct LossTargets {
  at::Tensor target_T1;  ///< int64 within the vocabulary; 0 where the token does not count
  at::Tensor counts_T;   ///< bool
};
/// Errors: ContractError if a counted target is >= vocab_size or the mask's shape differs.
LossTargets loss_targets(const at::Tensor& targets_BS, const at::Tensor& loss_mask_BS,
                         std::int64_t vocab_size);

/// Sum of the cross entropies of the counted tokens, in nats, as a 0-dim tensor: fp32 (fp64 for
/// fp64 logits).
///
/// Shapes:  logits_BSV with V >= vocab_size; columns from vocab_size on are padding: no
/// probability, zero gradient.
///          targets_BS int32 or int64, loss_mask_BS uint8, bool or float (undefined: all ones).
/// The caller divides by the global count, see GradHooks::backward. The backward pass is written
/// into memory of its own and needs the logits and two numbers per token. Errors:  ContractError if
/// a counted target is >= vocab_size.
at::Tensor cross_entropy_sum(const at::Tensor& logits_BSV, const at::Tensor& targets_BS,
                             const at::Tensor& loss_mask_BS, std::int64_t vocab_size);

}  // namespace sx
