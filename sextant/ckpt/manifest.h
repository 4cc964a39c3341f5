#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/ckpt/region.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

/// A stored piece of a tensor: an n-d box, or a range of the row-major element order.
struct Chunk : Region {
  std::string file;
  std::uint64_t begin = 0;  ///< bytes in `file`, from its start
  std::uint64_t end = 0;
  std::uint64_t xxh3 = 0;
};

struct StoredTensor {
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t logical = 0;  ///< checksum that does not depend on the layout (logical_checksum.h)
  std::vector<Chunk> chunks;
};

struct StoredFile {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

/// manifest.json: what a checkpoint holds. Written last; a folder without it is not a checkpoint.
struct Manifest {
  static constexpr int kVersion = 1;

  std::int64_t step = 0;
  std::int64_t tokens = 0;
  std::int64_t samples = 0;
  std::string created;
  std::string sextant;
  std::string git;
  std::string fingerprint;
  std::map<std::string, std::int64_t> mesh;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, StoredFile> files;
  std::map<std::string, std::string> states;  ///< state name -> file
};

/// File name of the manifest inside a checkpoint folder.
inline constexpr const char* kManifestName = "manifest.json";

/// One JSON object; its last member is the XXH3-64 of all bytes before it.
std::string format_manifest(const Manifest& manifest);
/// Whether a path, relative to the checkpoint's folder, stays inside it.
bool is_inner_file_name(std::string_view name);
/// Errors: kCorrupt (form, hash, sizes, tiling), kUnsupported (newer version, naming both numbers).
Result<Manifest> parse_manifest(std::string_view text);
/// As above for what one rank has written: its chunks need not cover their tensors.
Result<Manifest> parse_manifest_part(std::string_view text);

/// That the chunks of a tensor cover each of its elements exactly once. Errors: kCorrupt, saying
/// where not.
Result<void> check_tiling(const std::string& name, const StoredTensor& tensor);

}  // namespace sx
