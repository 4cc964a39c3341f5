#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/mmap.h"
#include "sextant/base/result.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

/// A piece of a tensor: the box [offset, offset + size) of it, stored row-major.
struct DcpChunk {
  std::vector<std::int64_t> offset, size;
  std::string file;                    ///< "__0_0.distcp"
  std::uint64_t begin = 0, bytes = 0;  ///< of the piece's archive inside the file
};

struct DcpTensor {
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::vector<DcpChunk> chunks;  ///< they cover every element once

  std::int64_t num_elements() const;
};

/// What `.metadata` says. Tensors in its order of names; other objects (numbers, texts) are only
/// named, not read.
struct DcpIndex {
  std::map<std::string, DcpTensor> tensors;
  std::vector<std::string> objects;
};

/// Errors:  kUnsupported and kCorrupt, with the byte for faults of the pickle; boxes outside their
///          tensor, overlapping or leaving holes.
Result<DcpIndex> parse_dcp_metadata(std::string_view bytes);

/// A checkpoint folder of torch.distributed.checkpoint, opened for reading tensors.
/// Source:  torch/distributed/checkpoint/{metadata,filesystem}.py of PyTorch 2.11 and 2.15.
class DcpFolder {
 public:
  /// Errors: those of `parse_dcp_metadata` with the file, kNotFound, kIo, a piece outside its file.
  static Result<DcpFolder> open(const fs::path& folder);

  const DcpIndex& index() const { return index_; }
  /// The whole tensor, row-major; `to` has room for it. Each piece's own description must agree.
  /// Errors: kCorrupt or kUnsupported with file and byte.
  Result<void> read(const DcpTensor& tensor, std::byte* to) const;

 private:
  fs::path path_;
  DcpIndex index_;
  std::map<std::string, MappedFile> files_;
};

}  // namespace sx
