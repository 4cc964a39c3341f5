#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);
std::uint64_t xxh3_64(std::string_view bytes);

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  /// 32 hex digits, high half first.
  std::string hex() const;
};
Hash128 xxh3_128(std::string_view bytes);

/// CRC-32C (Castagnoli), as TFRecord uses it.
std::uint32_t crc32c(std::string_view bytes);

/// 16 lower-case hex digits.
std::string hex64(std::uint64_t value);

/// Streaming XXH3-64.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;
  void update(std::string_view bytes);
  std::uint64_t digest() const;

 private:
  void* state_;
};

/// XXH3-64 of a whole file, read in blocks. Errors: kNotFound, kIo.
Result<std::uint64_t> xxh3_64_file(const std::string& path);

}  // namespace sx
