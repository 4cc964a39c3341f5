#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

namespace fs = std::filesystem;

/// Whole file as bytes. Errors: kNotFound, kIo, kLimit when larger than `max_bytes`.
Result<std::string> read_file(const fs::path& path,
                              std::uint64_t max_bytes = std::uint64_t{1} << 34);

/// Writes a file so that readers see the old content or the new, never a part: temp file in the
/// same folder, fsync, rename, fsync of the folder. Errors: kIo (with errno's text).
Result<void> write_file_atomic(const fs::path& path, std::string_view bytes);

/// Makes a folder and its parents. Errors: kIo.
Result<void> make_dirs(const fs::path& path);

/// fsync of a folder, after a rename inside it. Errors: kIo.
Result<void> sync_dir(const fs::path& path);

/// A file that is written from start to end and appears under its final name only at `commit()`.
/// A writer that is destroyed without commit removes its temporary file (`<path>.tmp`); the
/// temporary file of a killed process is used again by the next writer. Two writers of one path at
/// once: the second gets kIo. Not thread-safe. Errors:  kIo with errno's text ("No space left on
/// device") from every call; after an error nothing is committed.
class FileWriter {
 public:
  static Result<FileWriter> create(const fs::path& path);
  /// Opens an existing file to append, cut to `keep_bytes` first: no temporary name, `commit()`
  /// syncs and closes. Errors also: kNotFound; kCorrupt when the file is shorter than `keep_bytes`.
  static Result<FileWriter> resume(const fs::path& path, std::uint64_t keep_bytes);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  ~FileWriter();

  Result<void> write(std::string_view bytes);
  /// Bytes written so far (with resume: `keep_bytes` included).
  std::uint64_t bytes() const { return bytes_; }
  /// Writes out buffers and fsyncs; the file keeps its temporary name.
  Result<void> sync();
  Result<void> commit();

 private:
  friend Result<void> write_file_atomic(const fs::path& path, std::string_view bytes);
  FileWriter() = default;
  static Result<FileWriter> create(const fs::path& path, bool wait);
  Result<void> flush_buffer();
  fs::path path_;
  fs::path temp_path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  std::string buffer_;
  bool failed_ = false;
};

/// Files that match a shell pattern (* ? [..] in any component), sorted; a plain path is returned
/// as it is if it exists. Errors: kNotFound when nothing matches.
Result<std::vector<fs::path>> glob_files(const std::string& pattern);

/// Expands inputs as the command line gives them: paths, globs, folders are not entered,
/// "@list.txt" (one path or glob a line), "-" stays as it is.
Result<std::vector<fs::path>> expand_inputs(const std::vector<std::string>& inputs);

}  // namespace sx
