#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

/// A file mapped read-only for the life of the object; move-only. An empty file maps to an empty
/// span. Errors: kNotFound, kIo.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  std::size_t size() const { return size_; }
  /// Lets the system take the memory of these bytes back; read again, they come from the file
  /// again. Whole pages inside the range only.
  void release(std::size_t begin, std::size_t bytes) const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sx
