#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "sextant/base/result.h"

namespace sx {

/// The uncompressed bytes of a plain, gzip or zstd file, front to back. Chosen by the first bytes.
/// gzip members and zstd frames follow each other freely; zero padding after a gzip member and
/// skippable zstd frames are passed over.
///
/// Errors:  kNotFound, kIo, kCorrupt (damaged or cut data, with the offset in the stored file in
/// `where`). Not thread-safe. Holds two blocks of 256 KiB and the decoder's window (zstd: at most
/// 128 MiB).
class ByteStream {
 public:
  static Result<ByteStream> open(const std::filesystem::path& path);
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ~ByteStream();

  /// Appends the next bytes to `out`; false at the end of the stream (nothing was appended).
  Result<bool> read_some(std::string& out);
  std::uint64_t bytes_read() const;
  std::uint64_t file_bytes() const;

 private:
  struct State;
  explicit ByteStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sx
