#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/ckpt/manifest.h"

namespace sx {

/// Reads parts of stored tensors from the data files of one checkpoint. Reads are ordered by place
/// in the file; those less than 64 KiB apart become one, large ones go straight to their goal.
/// Threads: one at a time.
class ChunkReader {
 public:
  explicit ChunkReader(fs::path folder) : folder_(std::move(folder)) {}
  ~ChunkReader();
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  /// The elements of `want`, packed, into `out`. The chunks of `tensor` tile it.
  /// Errors: kIo, kNotFound (a file), kCorrupt (a file is shorter than the manifest says).
  Result<void> read(const StoredTensor& tensor, const Region& want, std::byte* out);
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Read {
    std::uint64_t at = 0;  ///< in the file
    std::size_t bytes = 0;
    std::byte* to = nullptr;
  };
  Result<int> descriptor(const std::string& file);
  Result<void> read_all(const std::string& file, std::vector<Read>& reads);
  Result<void> fill(int fd, const std::string& file, std::uint64_t at, std::byte* to,
                    std::size_t bytes);

  fs::path folder_;
  std::map<std::string, int> descriptors_;
  std::vector<std::byte> bounce_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace sx
