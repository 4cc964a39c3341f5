#include "sextant/base/hash.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::uint32_t kCrc32cPolynomial = 0x82f63b78;  // Castagnoli, bits reversed

/// Eight tables: table[k][b] is the effect of byte b when k more bytes follow it ("slicing by 8").
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_crc_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrc32cPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kCrcTables = make_crc_tables();

XXH3_state_t* as_xxh3(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3_64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Hash128 xxh3_128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::string Hash128::hex() const { return hex64(high) + hex64(low); }

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kCrcTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(*at)) & 0xff];
  }
  return ~crc;
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  SX_CHECK(state_ != nullptr, "no memory for a hash state");
  XXH3_64bits_reset(as_xxh3(state_));
}
Xxh3Stream::~Xxh3Stream() { XXH3_freeState(as_xxh3(state_)); }
Xxh3Stream::Xxh3Stream(Xxh3Stream&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
void Xxh3Stream::update(std::string_view bytes) {
  XXH3_64bits_update(as_xxh3(state_), bytes.data(), bytes.size());
}
std::uint64_t Xxh3Stream::digest() const { return XXH3_64bits_digest(as_xxh3(state_)); }

Result<std::uint64_t> xxh3_64_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorKind kind = errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
    return Error{kind, fmt::format("cannot read {}: {}", path, std::strerror(errno)), path};
  }
  Xxh3Stream stream;
  std::vector<char> block(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error{ErrorKind::kIo, fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                  path};
      close(fd);
      return error;
    }
    if (got == 0) break;
    stream.update({block.data(), static_cast<std::size_t>(got)});
  }
  close(fd);
  return stream.digest();
}

}  // namespace sx
