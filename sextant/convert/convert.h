#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {

struct ConvertOptions {
  std::uint64_t shard_bytes = 5'000'000'000;  ///< of tensors in one file of a folder of theirs
  std::optional<safetensors::Dtype> dtype;    ///< of exported weights; empty = as stored
  std::string prefix;  ///< export_dcp: only tensors with it, and it is cut off
};

struct Converted {
  fs::path path;  ///< what was written
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of tensors
};

/// Makes the checkpoint `checkpoint` of step 0 from a folder of Hugging Face, weights only.
/// config.json, tokenizer and generation files go along in its folder hf/.
/// Errors: those of HfFolder::open and of saving.
Result<Converted> import_hf(const fs::path& folder, const fs::path& checkpoint);

/// Writes the weights of a checkpoint of ours as a folder that transformers opens, with the files
/// that came along.
/// Errors:  those of Checkpoint::open; kCorrupt (model.json), kUnsupported for a model that no
///          architecture of theirs is, or weights of several dtypes without `options.dtype`.
Result<Converted> export_hf(const fs::path& checkpoint, const fs::path& folder,
                            const ConvertOptions& options = {});

/// Writes the tensors of a checkpoint of torch.distributed.checkpoint as safetensors, under their
/// names; a config.json beside them goes along, so that a model of Hugging Face saved that way
/// becomes a folder of theirs.
/// Errors:  those of DcpFolder; kNotFound when no tensor has the prefix.
Result<Converted> export_dcp(const fs::path& source, const fs::path& folder,
                             const ConvertOptions& options = {});

}  // namespace sx
