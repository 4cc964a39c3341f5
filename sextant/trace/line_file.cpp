#include "sextant/trace/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sx {
namespace {

Error io_error(const char* what, const fs::path& path) {
  return Error{ErrorKind::kIo, std::string(what) + ": " + std::strerror(errno), path.string()};
}

/// Bytes up to and with the last newline, searched from the end in blocks.
Result<std::uint64_t> complete_bytes(int fd, std::uint64_t size, const fs::path& path) {
  char block[4096];
  while (size > 0) {
    const std::uint64_t begin = size > sizeof block ? size - sizeof block : 0;
    const auto wanted = static_cast<std::size_t>(size - begin);
    const ssize_t got = ::pread(fd, block, wanted, static_cast<off_t>(begin));
    if (got != static_cast<ssize_t>(wanted)) return io_error("cannot read", path);
    for (std::size_t i = wanted; i > 0; --i) {
      if (block[i - 1] == '\n') return begin + i;
    }
    size = begin;
  }
  return std::uint64_t{0};
}

}  // namespace

Result<LineFile> LineFile::open(const fs::path& path, Existing existing) {
  if (path.has_parent_path()) {
    std::error_code code;
    fs::create_directories(path.parent_path(), code);
    if (code) {
      return Error{ErrorKind::kIo, "cannot make the folder: " + code.message(), path.string()};
    }
  }
  const int truncate = existing == Existing::kReplace ? O_TRUNC : 0;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | truncate, 0644);
  if (fd < 0) return io_error("cannot open", path);
  LineFile file(path, fd, 0);
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return io_error("cannot read", path);
  SX_TRY(const std::uint64_t keep,
         complete_bytes(fd, static_cast<std::uint64_t>(facts.st_size), path));
  if (::ftruncate(fd, static_cast<off_t>(keep)) != 0) return io_error("cannot cut", path);
  if (::lseek(fd, 0, SEEK_END) < 0) return io_error("cannot seek", path);
  file.bytes_ = keep;
  return file;
}

LineFile::LineFile(fs::path path, int fd, std::uint64_t bytes)
    : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    fd_ = std::exchange(other.fd_, -1);
    bytes_ = other.bytes_;
  }
  return *this;
}

LineFile::~LineFile() { close(); }

void LineFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<void> LineFile::append(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("cannot write", path_);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  bytes_ += bytes.size();
  return {};
}

bool next_line(std::string_view& rest, TextLine& line) {
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) return false;
  line.text = rest.substr(0, end);
  ++line.number;
  rest.remove_prefix(end + 1);
  return true;
}

}  // namespace sx
