#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

/// One tensor as `torch.save` writes it: a zip with a pickle that describes it and its storage.
struct SavedTensor {
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::string_view bytes;  ///< row-major, inside the archive
};

/// Errors:  kUnsupported: another object than one contiguous tensor, big-endian data, a dtype
///          safetensors lacks, a class that is not allowed; kCorrupt with the byte.
Result<SavedTensor> read_saved_tensor(std::string_view archive);

/// "float32" of "torch.float32" and the like; also the storages' names ("FloatStorage").
Result<safetensors::Dtype> torch_dtype(std::string_view name);

}  // namespace sx
