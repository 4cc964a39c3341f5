#include "sextant/ckpt/chunk_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sx {
namespace {

constexpr std::uint64_t kGapBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kBounceBytes = std::uint64_t{4} << 20;

}  // namespace

ChunkReader::~ChunkReader() {
  for (const auto& [file, fd] : descriptors_) close(fd);
}

Result<int> ChunkReader::descriptor(const std::string& file) {
  const auto known = descriptors_.find(file);
  if (known != descriptors_.end()) return known->second;
  const fs::path path = folder_ / file;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Error{errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                 fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)),
                 path.string()};
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  descriptors_[file] = fd;
  return fd;
}

Result<void> ChunkReader::fill(int fd, const std::string& file, std::uint64_t at, std::byte* to,
                               std::size_t bytes) {
  bytes_read_ += bytes;
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    const std::string where = fmt::format("{}, byte {}", (folder_ / file).string(), at);
    if (got < 0) {
      return Error{ErrorKind::kIo, fmt::format("cannot read {}: {}", file, std::strerror(errno)),
                   where};
    }
    if (got == 0) return Error{ErrorKind::kCorrupt, fmt::format("{} has shrunk", file), where};
    to += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> ChunkReader::read_all(const std::string& file, std::vector<Read>& reads) {
  SX_TRY(const int fd, descriptor(file));
  std::sort(reads.begin(), reads.end(), [](const Read& a, const Read& b) { return a.at < b.at; });
  for (std::size_t i = 0; i < reads.size();) {
    std::uint64_t end = reads[i].at + reads[i].bytes;
    std::size_t last = i + 1;
    while (last < reads.size() && reads[last].at - end < kGapBytes &&
           reads[last].at + reads[last].bytes - reads[i].at <= kBounceBytes) {
      end = reads[last].at + reads[last].bytes;
      ++last;
    }
    if (last == i + 1) {
      SX_TRY_VOID(fill(fd, file, reads[i].at, reads[i].to, reads[i].bytes));
    } else {
      bounce_.resize(static_cast<std::size_t>(end - reads[i].at));
      SX_TRY_VOID(fill(fd, file, reads[i].at, bounce_.data(), bounce_.size()));
      for (std::size_t k = i; k < last; ++k) {
        std::memcpy(reads[k].to, bounce_.data() + (reads[k].at - reads[i].at), reads[k].bytes);
      }
    }
    i = last;
  }
  return {};
}

Result<void> ChunkReader::read(const StoredTensor& tensor, const Region& want, std::byte* out) {
  const std::int64_t element = safetensors::size_bytes(tensor.dtype);
  std::map<std::string, std::vector<Read>> reads;
  for (const Chunk& chunk : tensor.chunks) {
    for_each_common_run(
        tensor.shape, want, chunk, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
          reads[chunk.file].push_back({chunk.begin + static_cast<std::uint64_t>(from * element),
                                       static_cast<std::size_t>(count * element),
                                       out + to * element});
        });
  }
  for (auto& [file, list] : reads) SX_TRY_VOID(read_all(file, list));
  return {};
}

}  // namespace sx
