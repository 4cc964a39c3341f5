#pragma once

#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/data_file.h"

namespace sx {

/// A folder of checkpoints held for writing: one saver at a time, over all processes. Given back
/// when the object goes, or its process dies.
class FolderLock {
 public:
  /// Waits for another saver, at most `patience`. On a file system without locks it holds nothing.
  /// Errors: kIo.
  static Result<FolderLock> take(const fs::path& folder, Seconds patience = Seconds{15.0});
  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  int fd_ = -1;
};

/// root/.tmp-step-NNNNNNN-<run>.
fs::path temp_folder(const fs::path& root, std::int64_t step, const SaveOptions& options);

/// First thing of a save, on one rank: the root, its lock, torn folders of the same run away, the
/// temporary folder. Errors: kIo.
Result<FolderLock> open_temp(const fs::path& root, const fs::path& temp,
                             const SaveOptions& options);

/// What this rank writes: pieces of its parts as they lie in memory.
struct OwnPiece {
  std::string tensor;
  std::vector<std::int64_t> shape;  ///< of the tensor
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  Region region;
  const char* from = nullptr;
  std::size_t bytes = 0;
  at::Tensor owner;  ///< of the memory
};
struct OwnPieces {
  std::vector<OwnPiece> model, optim;
};
/// This rank's share of its parts (save_plan.h).
/// Errors: kInvalid for a name with '@', an empty one, one twice, values of another size than their
/// region, a dtype the format lacks.
Result<OwnPieces> own_pieces(std::span<const TensorPart> model, std::span<const TensorPart> optim);

/// Writes them into `temp`, model and optimizer each one file, and says what it wrote. Errors: kIo.
Result<Manifest> write_pieces(const fs::path& temp, const OwnPieces& pieces, std::int64_t coord,
                              const std::atomic<bool>* cancel = nullptr);

/// Enters what write_data_file wrote for the pieces of these tensors.
void enter_written(const std::string& file, std::span<const DataPiece> pieces,
                   std::span<const std::string> tensors, const WrittenData& written,
                   Manifest& manifest);

/// Last thing, on one rank: what all ranks wrote must tile every tensor; then states, files, the
/// manifest, the name. Errors: kInvalid (ranks differ), kCorrupt (do not tile), kIo.
struct Commit {
  fs::path temp, path;
  const CheckpointFacts& facts;
  const SaveOptions& options;
  std::vector<std::string> part_files{};  ///< in `temp`, removed before the commit
};
/// Returns the bytes of the checkpoint.
Result<std::int64_t> commit_folder(const Commit& commit, std::vector<Manifest> written);
/// Beside others under `root`: also `latest` and retention.
Result<SaveReport> commit_step(const fs::path& root, const Commit& commit,
                               std::vector<Manifest> written);

/// A rank's manifest of its own files, or its error, as text and back.
std::string encode_part(const Result<Manifest>& written);
Result<Manifest> decode_part(const std::string& text);
bool is_failed_part(const std::string& text);

}  // namespace sx
