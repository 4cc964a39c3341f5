#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/ckpt/region.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

/// One entry to write: a region of a tensor, and where its bytes come from.
struct DataPiece {
  std::string name;  ///< of the entry
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  std::vector<std::int64_t> shape;  ///< of the entry
  std::vector<std::int64_t> tensor_shape;
  Region region;
  /// Bytes of `count` elements from the `begin`-th of the region, valid until the next call. A box
  /// that is no range of its tensor is asked for as a whole, anything else in blocks, in order.
  std::function<Result<std::string_view>(std::int64_t begin, std::int64_t count)> read;
};

/// Name of an entry: the tensor's, "<tensor>@<o0>,<o1>" or "<tensor>@flat:<first>".
std::string entry_name(const std::string& tensor, std::span<const std::int64_t> tensor_shape,
                       const Region& region);

struct WrittenPiece {
  std::uint64_t begin = 0;  ///< bytes from the start of the file
  std::uint64_t end = 0;
  std::uint64_t xxh3 = 0;
  std::uint64_t logical = 0;  ///< share of the tensor's logical checksum
};

struct WrittenData {
  std::uint64_t bytes = 0;  ///< of the file
  std::uint64_t xxh3 = 0;
  std::vector<WrittenPiece> pieces;  ///< in the order given
};

/// Writes one safetensors file, synced, in one pass over the data: hashes, checksum and writing go
/// block by block.
/// Errors:  kInvalid (names, dtypes the format lacks), kIo, also when `cancel` became true, and
///          those of `read`.
Result<WrittenData> write_data_file(const fs::path& path, std::span<const DataPiece> pieces,
                                    const std::atomic<bool>* cancel = nullptr);

}  // namespace sx
