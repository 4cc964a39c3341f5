#include "sextant/base/mmap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sx {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto failure = [&path](int code) {
    const ErrorKind kind = code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
    return Error{kind, fmt::format("cannot map {}: {}", path.string(), std::strerror(code)),
                 path.string()};
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failure(errno);
  struct stat info {};
  int code = fstat(fd, &info) == 0 ? 0 : errno;
  if (code == 0 && S_ISDIR(info.st_mode)) code = EISDIR;

  MappedFile file;
  if (code == 0 && info.st_size > 0) {
    void* data =
        mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      code = errno;
    } else {
      file.data_ = data;
      file.size_ = static_cast<std::size_t>(info.st_size);
    }
  }
  close(fd);
  if (code != 0) return failure(code);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::size_t begin, std::size_t bytes) const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first = (begin + page - 1) / page * page;
  const std::size_t end = (begin + bytes) / page * page;
  if (first < end && end <= size_) {
    madvise(static_cast<char*>(data_) + first, end - first, MADV_DONTNEED);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace sx
