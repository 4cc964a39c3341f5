#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/safetensors/safetensors.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

/// Bytes and hash of one written tensor, as a manifest keeps them.
struct WrittenEntry {
  safetensors::Entry entry;
  std::uint64_t xxh3 = 0;  ///< XXH3-64 of the entry's bytes
};

struct WrittenFile {
  std::vector<WrittenEntry> entries;
  std::uint64_t data_begin = 0;  ///< file offset the entries count from
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;  ///< of the whole file
};

/// Writes tensors (CPU, any strides; copied row-major) as one safetensors file, atomically,
/// fsynced. `metadata` is completed with {"format": "pt"}, which readers in Python look for.
/// Errors:  kInvalid (names, dtypes the format lacks), kIo.
Result<WrittenFile> save_safetensors(const fs::path& path, std::span<const NamedTensor> tensors,
                                     std::map<std::string, std::string> metadata = {});

/// A tensor with the entry's bytes copied from the map. Errors: kNotFound, kUnsupported.
Result<at::Tensor> load_tensor(const safetensors::File& file, const std::string& name);

/// All tensors of a file in file order. Errors: as `safetensors::File::open`, kUnsupported.
Result<std::vector<NamedTensor>> load_safetensors(const fs::path& path);

/// Empty for dtypes the format lacks.
std::optional<safetensors::Dtype> to_safetensors_dtype(at::ScalarType dtype);
at::ScalarType to_scalar_type(safetensors::Dtype dtype);

}  // namespace sx
