#pragma once

#include <string>

#include "sextant/nn/decoder.h"
#include "sextant/recipe/recipe.h"
#include "sextant/shape/model_json.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// The shape the keys model.* describe. `vocab_size` is used where model.vocab_size is "auto".
/// Errors:  ConfigError SX2-013 or SX2-003 with every fault of the shape; SX2-016 when the key is
///          smaller than the tokenizer's vocabulary.
ModelShape model_shape_of(const Recipe& recipe, std::int64_t vocab_size);

/// dtype of parameters: training.dtype "bf16" keeps them in fp32 and computes in bf16.
c10::ScalarType param_dtype(Dtype dtype);
DecoderOptions decoder_options(Dtype dtype);

}  // namespace sx
