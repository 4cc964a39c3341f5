#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/plan/dp_plan.h"

namespace sx {

/// One moment in the memory of a microbatch.
struct TapeEvent {
  enum class Kind : std::uint8_t {
    kTake,  ///< `bytes` of activations
    kGive,  ///< the same bytes back
    kPreForward,
    kPostForward,
    kPreBackward,
    kPostBackward,
    kGradient,  ///< `parameter`'s gradient of this microbatch is made, and still in memory
  };
  Kind kind = Kind::kTake;
  std::int64_t bytes = 0;
  std::size_t unit = 0;  ///< of the marks; place in decoder_units()
  std::string parameter{};
};

/// A microbatch, from the first byte that its forward takes to the last that its backward gives.
using StepTape = std::vector<TapeEvent>;

/// The marks and gradients alone, activations left out.
StepTape plain_tape(const std::vector<DpUnit>& units);

/// What is not kept for backward (nn/decoder.h, RecomputePlan).
struct TapeRecompute {
  bool full = false;
  bool attention_core = false, mlp_activation = false, norms = false;
  std::int64_t every = 1, first = 0;
};

struct TapeOptions {
  std::int64_t batch = 1, seq_len = 1;
  std::int64_t param_bytes = 4;    ///< of an element of the parameters that modules see
  std::int64_t compute_bytes = 4;  ///< of an activation; norms and loss use 4 where this is 2
  bool cut_rows = false;           ///< rows hold several documents
  std::int64_t head_chunk_bytes = std::int64_t{128} << 20;
  TapeRecompute recompute{};
};

/// The decoder's forward and backward with the fused head and loss, operation by operation: outputs
/// are taken when an operation runs, saved tensors given when its backward has run, gradients in
/// the order in which autograd makes them. Vectors of one row (biases, norm weights, scalars) are
/// left out, as are scratch buffers of matrix kernels: oneDNN's for bf16 depend on the processor.
///
/// Held against the decoder itself, allocation by allocation summed, in tests/equivalence.
StepTape decoder_tape(const ModelShape& shape, const TapeOptions& options);

}  // namespace sx
