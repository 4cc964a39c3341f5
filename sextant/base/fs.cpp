#include "sextant/base/fs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

Error os_error(const char* doing, const fs::path& path, int code) {
  const ErrorKind kind = code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
  return {kind, fmt::format("cannot {} {}: {}", doing, path.string(), std::strerror(code)),
          path.string()};
}

/// As os_error, but what is written must not be called "not found": the folder is missing, not an
/// input.
Error write_error(const char* doing, const fs::path& path, int code) {
  Error error = os_error(doing, path, code);
  error.kind = ErrorKind::kIo;
  return error;
}

Result<void> write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_error("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

bool is_file_of(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// Opens `temp` empty and locked, so that two writers of one name cannot mix their bytes, while the
/// leftover of a killed writer is simply used again. `wait`: wait for the other writer, else kIo.
Result<int> open_locked(const fs::path& temp, bool wait) {
  for (;;) {
    const int fd = open(temp.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return write_error("create", temp, errno);
    int code = 0;
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
      code = errno;
      if (code != EINTR) break;
      code = 0;
    }
    if (code == EWOULDBLOCK) {
      close(fd);
      return Error{ErrorKind::kIo,
                   fmt::format("{} is being written by another writer", temp.string()),
                   temp.string()};
    }
    // Other codes: a file system without locks, where we go on without. The name may have been
    // renamed away between open and lock; then this descriptor is the other writer's finished file
    // and must not be cut.
    if (!is_file_of(fd, temp)) {
      close(fd);
      continue;
    }
    if (ftruncate(fd, 0) != 0) {
      code = errno;
      close(fd);
      return write_error("create", temp, code);
    }
    return fd;
  }
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::uint64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return os_error("read", path, errno);
  const auto fail = [fd](Error error) {
    close(fd);
    return error;
  };
  struct stat info {};
  if (fstat(fd, &info) != 0) return fail(os_error("read", path, errno));
  std::string bytes;
  // The size is a hint only: files of /proc say 0, and a file may grow.
  if (info.st_size > 0) {
    bytes.reserve(std::min<std::uint64_t>(max_bytes, static_cast<std::uint64_t>(info.st_size)) + 1);
  }
  for (;;) {
    const std::size_t have = bytes.size();
    const std::size_t want =
        std::max<std::size_t>(bytes.capacity() > have ? bytes.capacity() - have : 0, 4096);
    bytes.resize(have + want);
    const ssize_t got = read(fd, bytes.data() + have, want);
    const int code = errno;
    bytes.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && code == EINTR) continue;
    if (got < 0) return fail(os_error("read", path, code));
    if (got == 0) break;
    if (bytes.size() > max_bytes) {
      return fail({ErrorKind::kLimit,
                   fmt::format("{} is larger than {} bytes", path.string(), max_bytes),
                   path.string()});
    }
  }
  close(fd);
  return bytes;
}

Result<void> make_dirs(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return write_error("make folder", path, code.value());
  return {};
}

Result<void> sync_dir(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return write_error("open folder", path, errno);
  const int code = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some file systems cannot sync a folder and say so; the rename itself has been done.
  if (code != 0 && code != EINVAL && code != ENOTSUP) return write_error("sync folder", path, code);
  return {};
}

Result<FileWriter> FileWriter::create(const fs::path& path) { return create(path, false); }

Result<FileWriter> FileWriter::create(const fs::path& path, bool wait) {
  FileWriter writer;
  writer.path_ = path;
  const fs::path temp = path.string() + ".tmp";
  SX_TRY(writer.fd_, open_locked(temp, wait));
  writer.temp_path_ = temp;
  return writer;
}

Result<FileWriter> FileWriter::resume(const fs::path& path, std::uint64_t keep_bytes) {
  FileWriter writer;
  writer.path_ = path;
  writer.fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (writer.fd_ < 0) return os_error("open", path, errno);
  struct stat info {};
  if (fstat(writer.fd_, &info) != 0) return write_error("open", path, errno);
  if (static_cast<std::uint64_t>(info.st_size) < keep_bytes) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{} has {} bytes, fewer than the {} saved", path.string(),
                             info.st_size, keep_bytes),
                 path.string()};
  }
  if (ftruncate(writer.fd_, static_cast<off_t>(keep_bytes)) != 0 ||
      lseek(writer.fd_, 0, SEEK_END) < 0) {
    return write_error("cut", path, errno);
  }
  writer.bytes_ = keep_bytes;
  return writer;
}

FileWriter::FileWriter(FileWriter&& other) noexcept { *this = std::move(other); }

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temp_path_, other.temp_path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(buffer_, other.buffer_);
  std::swap(failed_, other.failed_);
  return *this;
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  // Unlink before the lock goes with the descriptor: afterwards the name may be another writer's.
  if (!temp_path_.empty()) unlink(temp_path_.c_str());
  close(fd_);
}

Result<void> FileWriter::flush_buffer() {
  auto status = write_all(fd_, buffer_, path_);
  buffer_.clear();
  if (!status.ok()) failed_ = true;
  return status;
}

Result<void> FileWriter::write(std::string_view bytes) {
  SX_CHECK(fd_ >= 0, "write to a file that is closed: {}", path_.string());
  if (failed_) return Error{ErrorKind::kIo, "an earlier write failed", path_.string()};
  bytes_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    SX_TRY_VOID(flush_buffer());
    if (bytes.size() > kBufferBytes / 2) {
      auto status = write_all(fd_, bytes, path_);
      if (!status.ok()) failed_ = true;
      return status;
    }
  }
  buffer_ += bytes;
  return {};
}

Result<void> FileWriter::sync() {
  SX_CHECK(fd_ >= 0, "sync of a file that is closed: {}", path_.string());
  if (failed_) return Error{ErrorKind::kIo, "an earlier write failed", path_.string()};
  SX_TRY_VOID(flush_buffer());
  if (fsync(fd_) != 0) {
    // After a failed fsync the kernel may have dropped the dirty pages: a second try would wrongly
    // succeed.
    failed_ = true;
    return write_error("sync", path_, errno);
  }
  return {};
}

Result<void> FileWriter::commit() {
  SX_TRY_VOID(sync());
  if (!temp_path_.empty()) {
    if (rename(temp_path_.c_str(), path_.c_str()) != 0) {
      failed_ = true;
      return write_error("rename to", path_, errno);
    }
    temp_path_.clear();
  }
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) return write_error("close", path_, errno);
  return sync_dir(parent_of(path_));
}

Result<void> write_file_atomic(const fs::path& path, std::string_view bytes) {
  SX_TRY(FileWriter writer, FileWriter::create(path, true));
  SX_TRY_VOID(writer.write(bytes));
  return writer.commit();
}

}  // namespace sx
