#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/mmap.h"
#include "sextant/base/result.h"

namespace sx {

/// Element types of the arrays that index caches hold.
enum class NpyType { kInt16, kInt32, kInt64, kUint32 };
std::uint64_t npy_bytes(NpyType type);
/// "<i2", "<i4", "<i8", "<u4".
const char* to_string(NpyType type);

/// An array of integers of one or two dimensions, row-major: in memory, or mapped from a `.npy`
/// file and read from disk only where it is looked at. Copies share the elements. Immutable;
/// threads: safe.
class NpyArray {
 public:
  NpyArray() = default;
  /// Takes over `values`; `columns` 0 = one dimension, else rows of so many.
  template <class T>
  static NpyArray from(std::vector<T> values, std::uint64_t columns = 0);

  /// Maps a `.npy` file of version 1.0, 2.0 or 3.0. Errors: kNotFound, kIo; kCorrupt for a header
  /// that does not parse or elements that do not end with the file; kUnsupported for other element
  /// types, big-endian or column-major ones, and other numbers of dimensions.
  static Result<NpyArray> open(const std::filesystem::path& path);

  NpyType type() const { return type_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }  ///< 0 = one dimension
  std::uint64_t size() const { return rows_ * (columns_ == 0 ? 1 : columns_); }
  /// Element i in row-major order; i < size().
  std::int64_t operator[](std::uint64_t i) const;
  std::string_view bytes() const { return {data_, size() * npy_bytes(type_)}; }

 private:
  NpyArray(NpyType type, std::uint64_t rows, std::uint64_t columns) noexcept
      : type_(type), rows_(rows), columns_(columns) {}
  NpyType type_ = NpyType::kInt32;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  std::shared_ptr<const void> owner_;
  const char* data_ = nullptr;
};

/// The bytes before the elements, as numpy writes them (version 1.0).
std::string npy_header(const NpyArray& array);
/// Writes `array` as numpy.save does, atomically. Errors: kIo.
Result<void> write_npy(const std::filesystem::path& path, const NpyArray& array);

}  // namespace sx
