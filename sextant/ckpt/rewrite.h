#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sextant/ckpt/checkpoint.h"

namespace sx {

/// A whole tensor whose elements are read while a checkpoint is written, in blocks of at most 1
/// MiB, by rising index within a tensor.
struct StreamedTensor {
  std::string name;  ///< "optim." at its beginning puts it into the optimizer's files
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  std::vector<std::int64_t> shape;
  /// Puts the elements [begin, begin + count) of the row-major order into `out`.
  std::function<Result<void>(std::int64_t begin, std::int64_t count, std::span<std::byte> out)>
      read;
  /// What its logical checksum must come to; empty = unknown.
  std::optional<std::uint64_t> logical;
};

/// What one data file of a rewritten checkpoint will hold.
struct PlannedFile {
  std::string name;
  std::int64_t bytes = 0;  ///< of tensors
  std::int64_t chunks = 0;
};
/// How `write_streamed` cuts: model and optimizer each laid end to end and cut into `num_files`
/// equal ranges.
std::vector<PlannedFile> plan_streamed(std::span<const StreamedTensor> tensors,
                                       std::int64_t num_files);

/// Makes the checkpoint `folder` from tensors that need not fit into memory: besides what `read`
/// holds it takes 1 MiB. The folder appears whole or not at all.
/// Errors:  kInvalid (`folder` is there already; names, twice or with '@'), kCorrupt (a checksum
///          that differs from `logical`), kIo, those of `read`.
Result<SaveReport> write_streamed(const fs::path& folder, const CheckpointFacts& facts,
                                  std::span<const StreamedTensor> tensors, std::int64_t num_files,
                                  const SaveOptions& options = {});

/// Every tensor of a checkpoint, to be read block by block; `checkpoint` outlives them.
std::vector<StreamedTensor> streamed_tensors(const Checkpoint& checkpoint);

/// Facts, states and files of a checkpoint, hashes compared. Errors: kCorrupt, kIo.
Result<CheckpointFacts> facts_of(const Checkpoint& checkpoint);

}  // namespace sx
