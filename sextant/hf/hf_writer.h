#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/hf/hf_names.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

/// Where the values of our parameters come from.
struct HfSource {
  safetensors::Dtype dtype = safetensors::Dtype::kF32;  ///< of what `read` gives, and of the files
  /// The elements [begin, begin + count) of a parameter in row-major order.
  std::function<Result<void>(const HfParam& param, std::int64_t begin, std::int64_t count,
                             std::byte* to)>
      read;
};

struct HfWriteOptions {
  std::uint64_t shard_bytes = 5'000'000'000;  ///< of tensors; a larger tensor has a file of its own
  nlohmann::ordered_json base_config;         ///< fields of config.json to keep; may be null
  std::map<std::string, std::string> companions;  ///< files written as they are
};

struct HfWritten {
  std::int64_t tensors = 0;
  std::int64_t files = 0;   ///< with weights
  std::uint64_t bytes = 0;  ///< of tensors
};

/// Writes a folder that transformers opens: one tensor is in memory at a time. config.json comes
/// last. Padding of the vocabulary stays behind.
/// Errors:  kUnsupported for a shape no architecture of theirs has, kIo, those of `read`.
Result<HfWritten> write_hf_folder(const fs::path& folder, const ModelShape& shape,
                                  const HfSource& source, const HfWriteOptions& options = {});

/// "model.safetensors", or "model-0000i-of-000nn.safetensors" of several.
std::string hf_weight_file(std::size_t idx, std::size_t count);
/// model.safetensors.index.json. Errors: kIo.
Result<void> write_hf_index(const fs::path& folder, const nlohmann::ordered_json& weight_map,
                            std::uint64_t bytes);

}  // namespace sx
