#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/mmap.h"
#include "sextant/base/result.h"

namespace sx::safetensors {

/// Element types of the format. The two F8 types are read, not written.
enum class Dtype : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2
};

/// "F64" ... as in the file.
const char* to_string(Dtype dtype);
/// Errors: kUnsupported, naming the word.
Result<Dtype> parse_dtype(std::string_view word);
std::int64_t size_bytes(Dtype dtype);

/// One tensor of a file. Row-major, packed, little-endian.
struct Entry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;  ///< empty = 0-rank; a 0 inside = no elements
  std::uint64_t begin = 0;          ///< bytes from the end of the header
  std::uint64_t end = 0;

  std::uint64_t num_bytes() const { return end - begin; }
};

/// What stands before the data.
struct Header {
  std::vector<Entry> entries;                   ///< ordered by `begin`, then name
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
  std::uint64_t data_begin = 0;                 ///< file offset of the data
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Reads the header from the beginning of a file of `file_bytes` bytes; `head` holds at least the
/// header (or the whole file). Nothing is allocated from a length that the file does not bear out.
///
/// Errors:  kCorrupt: header longer than 100,000,000 bytes or than the file, not starting with '{',
///          not UTF-8 JSON of the form, a name twice, offsets that overlap, leave a hole or do not
///          end at the file's end, size that is not product(shape) * dtype size, product past 64
///          bits. kUnsupported: unknown dtype.
Result<Header> parse_header(std::string_view head, std::uint64_t file_bytes);

/// Lays out tensors for writing: ordered by falling dtype size, then name, offsets filled in, and
/// the header text padded with spaces to a multiple of 8.
/// Errors:  kInvalid: a name twice, name "__metadata__", negative size, F8 dtype, header too long.
struct Layout {
  Header header;
  std::string head;  ///< bytes to write before the data
};
Result<Layout> plan_layout(std::vector<Entry> entries,
                           const std::map<std::string, std::string>& metadata);

/// A file opened for reading: mapped, so only the ranges that are read are loaded.
class File {
 public:
  /// Errors: kNotFound, kIo, and those of `parse_header`, with the path.
  static Result<File> open(const fs::path& path);

  const Header& header() const { return header_; }
  std::uint64_t file_bytes() const { return map_.size(); }
  const Entry* find(std::string_view name) const;
  /// The entry's bytes, valid as long as this object; not aligned beyond what the file has.
  std::span<const std::byte> data(const Entry& entry) const;
  /// Lets the system take the memory of the entry's bytes back.
  void release(const Entry& entry) const;

 private:
  MappedFile map_;
  Header header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace sx::safetensors
