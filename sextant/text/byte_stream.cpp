#include "sextant/text/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace sx {

namespace {
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr int kMaxWindowLog = 27;
enum class Codec { kPlain, kGzip, kZstd };

bool is_zstd_magic(const unsigned char* p) {
  const std::uint32_t magic = std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 |
                              std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
  return magic == 0xFD2FB528u || (magic & 0xFFFFFFF0u) == 0x184D2A50u;
}
}  // namespace

struct ByteStream::State {
  std::filesystem::path path;
  int fd = -1;
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes_read = 0;
  Codec codec = Codec::kPlain;
  std::string in;
  std::size_t in_pos = 0;
  bool file_end = false;
  bool inside = false;  // a gzip member or zstd frame has begun and not ended
  z_stream zlib{};
  bool zlib_open = false;
  ZSTD_DCtx* zstd = nullptr;

  ~State() {
    if (fd >= 0) ::close(fd);
    if (zlib_open) inflateEnd(&zlib);
    ZSTD_freeDCtx(zstd);
  }
  Error corrupt(std::string message) const {
    return Error{ErrorKind::kCorrupt, std::move(message),
                 fmt::format("{}:offset {}", path.string(), bytes_read - (in.size() - in_pos))};
  }
  /// Makes at least one unread byte available unless the file is at its end.
  Result<void> fill() {
    if (in_pos < in.size() || file_end) return {};
    in.resize(kBlockBytes);
    in_pos = 0;
    ssize_t got;
    do {
      got = ::read(fd, in.data(), in.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      in.clear();
      return Error{ErrorKind::kIo, fmt::format("cannot read: {}", std::strerror(errno)),
                   path.string()};
    }
    in.resize(static_cast<std::size_t>(got));
    bytes_read += static_cast<std::uint64_t>(got);
    file_end = got == 0;
    return {};
  }
  Result<bool> read_gzip(std::string& out);
  Result<bool> read_zstd(std::string& out);
};

ByteStream::ByteStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;
std::uint64_t ByteStream::bytes_read() const { return state_->bytes_read; }
std::uint64_t ByteStream::file_bytes() const { return state_->file_bytes; }

Result<ByteStream> ByteStream::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (state->fd < 0) {
    return Error{errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                 fmt::format("cannot open: {}", std::strerror(errno)), path.string()};
  }
  struct stat info {};
  if (fstat(state->fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    return Error{ErrorKind::kIo, S_ISDIR(info.st_mode) ? "is a folder" : "cannot stat",
                 path.string()};
  }
  state->file_bytes = static_cast<std::uint64_t>(info.st_size);
  SX_TRY_VOID(state->fill());
  const auto* head = reinterpret_cast<const unsigned char*>(state->in.data());
  if (state->in.size() >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8) {
    state->codec = Codec::kGzip;
    state->zlib_open = inflateInit2(&state->zlib, 15 + 16) == Z_OK;
    if (!state->zlib_open) return Error{ErrorKind::kInternal, "zlib cannot start", path.string()};
  } else if (state->in.size() >= 4 && is_zstd_magic(head)) {
    state->codec = Codec::kZstd;
    state->zstd = ZSTD_createDCtx();
    ZSTD_DCtx_setParameter(state->zstd, ZSTD_d_windowLogMax, kMaxWindowLog);
  }
  return ByteStream(std::move(state));
}

Result<bool> ByteStream::State::read_gzip(std::string& out) {
  for (;;) {
    SX_TRY_VOID(fill());
    if (in_pos == in.size()) {
      if (inside) return corrupt("gzip data ends inside a member");
      return false;
    }
    if (!inside && in[in_pos] == '\0') {  // padding of tape and block writers
      ++in_pos;
      continue;
    }
    inside = true;
    const std::size_t before = out.size();
    out.resize(before + kBlockBytes);
    zlib.next_in = reinterpret_cast<Bytef*>(in.data() + in_pos);
    zlib.avail_in = static_cast<uInt>(in.size() - in_pos);
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    zlib.avail_out = static_cast<uInt>(kBlockBytes);
    const int rc = inflate(&zlib, Z_NO_FLUSH);
    in_pos = in.size() - zlib.avail_in;
    out.resize(before + (kBlockBytes - zlib.avail_out));
    if (rc == Z_STREAM_END) {
      inside = false;
      inflateReset(&zlib);
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
      return corrupt(fmt::format("gzip data is damaged: {}", zlib.msg ? zlib.msg : "no detail"));
    }
    if (out.size() > before) return true;
  }
}

Result<bool> ByteStream::State::read_zstd(std::string& out) {
  for (;;) {
    SX_TRY_VOID(fill());
    if (in_pos == in.size()) {
      if (inside) return corrupt("zstd data ends inside a frame");
      return false;
    }
    const std::size_t before = out.size();
    out.resize(before + kBlockBytes);
    ZSTD_inBuffer source{in.data(), in.size(), in_pos};
    ZSTD_outBuffer target{out.data() + before, kBlockBytes, 0};
    const std::size_t rc = ZSTD_decompressStream(zstd, &target, &source);
    in_pos = source.pos;
    out.resize(before + target.pos);
    if (ZSTD_isError(rc))
      return corrupt(fmt::format("zstd data is damaged: {}", ZSTD_getErrorName(rc)));
    inside = rc != 0;
    if (out.size() > before) return true;
  }
}

Result<bool> ByteStream::read_some(std::string& out) {
  State& s = *state_;
  if (s.codec == Codec::kGzip) return s.read_gzip(out);
  if (s.codec == Codec::kZstd) return s.read_zstd(out);
  SX_TRY_VOID(s.fill());
  if (s.in_pos == s.in.size()) return false;
  out.append(s.in, s.in_pos);
  s.in_pos = s.in.size();
  return true;
}

}  // namespace sx
