#pragma once

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// A folder that appears whole or not at all: its files are written under a temporary name beside
/// it, `commit` syncs them and gives it its own.
class StagedFolder {
 public:
  /// Errors: kInvalid when `target` is there and is not an empty folder; kIo, also when another
  /// program is writing the same folder.
  static Result<StagedFolder> create(const fs::path& target);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  /// Removes what was written, unless it was committed.
  ~StagedFolder();

  /// Where the files go until `commit`.
  const fs::path& path() const { return temp_; }
  /// Errors: kInvalid when `target` has come to be meanwhile; kIo.
  Result<void> commit();

 private:
  StagedFolder() = default;

  fs::path target_, temp_;
  int lock_ = -1;
};

}  // namespace sx
