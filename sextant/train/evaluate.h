#pragma once

#include <cstdint>

#include "sextant/data/loader.h"
#include "sextant/nn/decoder.h"
#include "sextant/train/run_context.h"

namespace sx {

struct Evaluation {
  double loss = 0;          ///< mean over `tokens`, nats
  std::int64_t tokens = 0;  ///< targets counted, each exactly once
};

/// Mean loss over an evaluation pass from its start: at most `max_steps` global batches, 0 = the
/// whole pass. No gradients. The same bits for every number of ranks. Collective.
/// Errors:  IoError when the loader fails.
Evaluation evaluate(RunContext& run, Decoder& model, Loader& loader, std::int64_t max_steps);

}  // namespace sx
