#pragma once

#include "sextant/tensor/fwd.h"

namespace sx {

/// Back-propagates `scale * loss` of one microbatch; gradients arrive at the parameters' hooks and
/// `.grad` as LibTorch leaves them. `scale` is usually 1 / (global number of loss tokens), computed
/// in double; it enters as the seed of the backward pass with one rounding to loss's dtype, so no
/// extra product stands between loss and gradients.
///
/// How contributions of several microbatches are added (the first is copied) is decided by whoever
/// hooks the parameters: `Ddp`, also for one rank. Threads: all of it, hooks included, runs on the
/// calling thread after `prepare_rank_thread`. Errors:  ContractError if loss is not one element or
/// carries no graph; whatever a hook throws.
void backward(const at::Tensor& loss, double scale);

}  // namespace sx
