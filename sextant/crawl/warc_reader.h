#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

enum class WarcType {
  kWarcinfo,
  kResponse,
  kResource,
  kRequest,
  kMetadata,
  kRevisit,
  kConversion,
  kContinuation,
  kOther,
};
const char* to_string(WarcType type);

/// Fields in the order of the file; names as written.
using HeaderFields = std::vector<std::pair<std::string, std::string>>;
/// Value of the first field of that name (ASCII case does not count); nullptr when there is none.
const std::string* find_field(const HeaderFields& fields, std::string_view name);
/// All "name: value" lines of a header block (after its first line, before the blank line). Folded
/// lines are joined with a space; lines without colon are passed over and counted in `quirks`.
/// Values that are not UTF-8 are read as windows-1252.
HeaderFields parse_fields(std::string_view block, std::uint64_t& quirks);

struct WarcRecord {
  std::string version;  ///< "WARC/1.1"
  WarcType type = WarcType::kOther;
  HeaderFields fields;
  std::string id;    ///< WARC-Record-ID without brackets
  std::string url;   ///< WARC-Target-URI: brackets stripped, spaces as %20
  std::string date;  ///< WARC-Date
  std::string content_type;
  std::string block;                 ///< empty when too_large
  std::uint64_t declared_bytes = 0;  ///< Content-Length
  std::uint64_t offset = 0;          ///< in the stored file
  std::uint64_t stored_bytes =
      0;                   ///< in the stored file, separators and padding behind it included
  bool clipped = false;    ///< the file ends inside the block
  bool too_large = false;  ///< block above the limit: passed over, counted, never cut
  bool truncated = false;  ///< WARC-Truncated says so, or clipped
  std::uint64_t quirks =
      0;  ///< lenient readings: LF line ends, missing length, extra line ends ...
};

/// Bytes that belong to no record.
struct WarcGap {
  std::uint64_t offset = 0;  ///< in the stored file
  std::uint64_t bytes = 0;   ///< up to where the next record begins or the file ends
  std::string cause;
};

struct WarcLimits {
  std::uint64_t max_block_bytes = std::uint64_t{64} << 20;
  std::uint64_t max_header_bytes = std::uint64_t{1} << 20;
};

/// Reads the records of a WARC 0.17 to 1.1 file, plain or gzip (a member per record, or any other
/// division into members), told apart by the first bytes.
///
/// Memory:  holds one record. The file is mapped; every length is held against what is left of it.
/// Returns: the record; nullopt at the end of the file.
/// Errors:  kCorrupt for a gap: bytes that are no record, told once per gap with offset and cause
/// (`last_gap()`). The
///          reader has then moved to the next place that begins a record (a gzip member whose
///          content begins with "WARC/", or a line "WARC/" behind which a header parses), so the
///          caller counts it and goes on.
/// Threads: one reader per thread; readers of different files are independent.
/// Invariant at the end: stored_bytes of all records + bytes of all gaps + trailing_bytes() = the
/// file's size. Source:  IIPC WARC 1.1, sections 4 and 5 and annexes A, D; RFC 1952 for gzip
/// members.
class WarcReader {
 public:
  /// Errors: kNotFound, kIo; kUnsupported for files that are ARC, zstd, lz4 or no archive at all.
  static Result<WarcReader> open(const std::filesystem::path& path, WarcLimits limits = {});
  /// Over bytes that outlive the reader; `name` stands in messages.
  static Result<WarcReader> from_memory(std::string_view bytes, std::string name,
                                        WarcLimits limits = {});
  WarcReader(WarcReader&&) noexcept;
  WarcReader& operator=(WarcReader&&) noexcept;
  ~WarcReader();

  Result<std::optional<WarcRecord>> next();
  const WarcGap& last_gap() const;
  /// Bytes behind the last record that hold nothing (padding, empty gzip members); known at the
  /// end.
  std::uint64_t trailing_bytes() const;
  std::uint64_t position() const;  ///< in the stored file, for progress
  std::uint64_t file_bytes() const;

 private:
  class State;
  explicit WarcReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sx
