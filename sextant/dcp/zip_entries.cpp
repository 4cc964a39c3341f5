#include "sextant/dcp/zip_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sx {
namespace {

constexpr std::uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint64_t kEntryBytes = 46, kLocalBytes = 30;
constexpr std::uint32_t kNot32 = 0xffffffffu;

Error zip_error(std::uint64_t at, const std::string& what) {
  return {ErrorKind::kCorrupt, fmt::format("zip: byte {}: {}", at, what), ""};
}

/// Little-endian numbers of an archive; the caller has checked that they lie inside.
class ZipBytes {
 public:
  explicit ZipBytes(std::string_view archive) : archive_(archive) {}
  bool holds(std::uint64_t at, std::uint64_t bytes) const {
    return at <= archive_.size() && bytes <= archive_.size() - at;
  }
  std::uint64_t get(std::uint64_t at, int size) const {
    std::uint64_t value = 0;
    for (int i = size - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(archive_[at + static_cast<std::uint64_t>(i)]);
    }
    return value;
  }
  std::string_view text(std::uint64_t at, std::uint64_t bytes) const {
    return archive_.substr(at, bytes);
  }
  std::uint64_t size() const { return archive_.size(); }

 private:
  std::string_view archive_;
};

struct Directory {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

/// The end record lies at the end, before a comment of up to 65,535 bytes.
Result<std::uint64_t> find_end(const ZipBytes& zip) {
  if (zip.size() < kEndBytes) return zip_error(0, "no archive");
  const std::uint64_t last = zip.size() - kEndBytes;
  for (std::uint64_t back = 0; back <= std::min<std::uint64_t>(last, 65535); ++back) {
    const std::uint64_t at = last - back;
    if (zip.get(at, 4) == 0x06054b50 && zip.get(at + 20, 2) == back) return at;
  }
  return zip_error(last, "no end record");
}

Result<Directory> find_directory(const ZipBytes& zip) {
  SX_TRY(const std::uint64_t end, find_end(zip));
  if (zip.get(end + 4, 2) != 0 && zip.get(end + 4, 2) != 0xffff) {
    return Error{ErrorKind::kUnsupported, "zip: an archive in several parts", ""};
  }
  Directory directory{zip.get(end + 16, 4), zip.get(end + 12, 4), zip.get(end + 10, 2)};
  const bool wide =
      directory.at == kNot32 || directory.bytes == kNot32 || directory.entries == 0xffff;
  if (wide && end >= kLocator64Bytes && zip.get(end - kLocator64Bytes, 4) == 0x07064b50) {
    const std::uint64_t at = zip.get(end - kLocator64Bytes + 8, 8);
    if (!zip.holds(at, kEnd64Bytes) || zip.get(at, 4) != 0x06064b50) {
      return zip_error(end - kLocator64Bytes, "no 64-bit end record where it says");
    }
    directory = {zip.get(at + 48, 8), zip.get(at + 40, 8), zip.get(at + 32, 8)};
  }
  if (!zip.holds(directory.at, directory.bytes)) {
    return zip_error(
        end, fmt::format("directory [{}, +{}) outside the archive", directory.at, directory.bytes));
  }
  if (directory.entries > directory.bytes / kEntryBytes) {
    return zip_error(end,
                     fmt::format("{} entries in {} bytes", directory.entries, directory.bytes));
  }
  return directory;
}

struct Sizes {
  std::uint64_t stored, whole, local;
};

/// Replaces the fields that are all ones by those of the ZIP64 extra field, which has only these.
Result<Sizes> widen(const ZipBytes& zip, std::uint64_t extra, std::uint64_t extra_bytes,
                    Sizes sizes) {
  for (std::uint64_t at = extra; at + 4 <= extra + extra_bytes;) {
    const std::uint64_t id = zip.get(at, 2), bytes = zip.get(at + 2, 2);
    if (bytes > extra + extra_bytes - at - 4) return zip_error(at, "an extra field past its end");
    if (id == 1) {
      std::uint64_t from = at + 4;
      for (std::uint64_t* field : {&sizes.whole, &sizes.stored, &sizes.local}) {
        if (*field != kNot32) continue;
        if (from + 8 > at + 4 + bytes) return zip_error(at, "a 64-bit field is missing");
        *field = zip.get(from, 8);
        from += 8;
      }
    }
    at += 4 + bytes;
  }
  return sizes;
}

Result<std::string_view> stored_bytes(const ZipBytes& zip, const Sizes& sizes) {
  if (!zip.holds(sizes.local, kLocalBytes) || zip.get(sizes.local, 4) != 0x04034b50) {
    return zip_error(sizes.local, "no file header where the directory says");
  }
  const std::uint64_t data =
      sizes.local + kLocalBytes + zip.get(sizes.local + 26, 2) + zip.get(sizes.local + 28, 2);
  if (!zip.holds(data, sizes.stored)) {
    return zip_error(sizes.local, fmt::format("{} bytes of a file past the end", sizes.stored));
  }
  return zip.text(data, sizes.stored);
}

}  // namespace

Result<std::vector<ZipEntry>> list_zip(std::string_view archive) {
  const ZipBytes zip(archive);
  SX_TRY(const Directory directory, find_directory(zip));
  std::vector<ZipEntry> entries;
  std::uint64_t at = directory.at;
  const std::uint64_t end = directory.at + directory.bytes;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (end - at < kEntryBytes || zip.get(at, 4) != 0x02014b50) {
      return zip_error(at, "no directory entry");
    }
    const std::uint64_t name = zip.get(at + 28, 2), extra = zip.get(at + 30, 2);
    const std::uint64_t whole = kEntryBytes + name + extra + zip.get(at + 32, 2);
    if (whole > end - at) return zip_error(at, "a directory entry past the directory");
    if (zip.get(at + 10, 2) != 0 || (zip.get(at + 8, 2) & 1) != 0) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("zip: byte {}: a compressed or encrypted file", at), ""};
    }
    SX_TRY(const Sizes sizes,
           widen(zip, at + kEntryBytes + name, extra,
                 {zip.get(at + 20, 4), zip.get(at + 24, 4), zip.get(at + 42, 4)}));
    if (sizes.stored != sizes.whole) return zip_error(at, "sizes differ without compression");
    SX_TRY(const std::string_view bytes, stored_bytes(zip, sizes));
    entries.push_back({std::string(zip.text(at + kEntryBytes, name)), bytes});
    at += whole;
  }
  return entries;
}

}  // namespace sx
