#pragma once

#include <memory>

#include "sextant/base/fs.h"
#include "sextant/nn/decoder.h"
#include "sextant/token/tokenizer.h"

namespace sx {

/// A trained model for inference, in the dtype it was saved in.
struct LoadedModel {
  std::unique_ptr<Decoder> decoder;
  Tokenizer tokenizer;
  std::int64_t step = 0;
};

/// Loads a checkpoint folder, the newest checkpoint of a run folder, or a folder of Hugging Face
/// ("hf:DIR", or DIR with a config.json); its tokenizer comes along.
/// Errors:  ConfigError SX2-007 when there is no checkpoint, IoError for a corrupt one.
LoadedModel load_model(const fs::path& path);

}  // namespace sx
