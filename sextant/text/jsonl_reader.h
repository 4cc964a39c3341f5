#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

/// One document of a JSON-lines file; views are valid until the next call of the reader.
struct JsonlDocument {
  std::string_view text;          ///< field "text": valid UTF-8
  std::string_view id;            ///< field "id", empty when absent
  std::string_view line;          ///< the whole line, without its end, for readers of other fields
  std::uint64_t line_number = 0;  ///< from 1
  std::uint64_t offset = 0;       ///< of the line's first byte in the uncompressed stream
};

/// Reads lines from a plain, gzip (many members) or zstd (many frames, skippable frames) file;
/// which one is seen from the first bytes, not the name. Holds one line and one block.
///
/// Errors:  kNotFound, kIo; kCorrupt for damaged or cut compressed data; kLimit for a line above
/// `max_line_bytes`.
///          After an error the reader is at its end.
/// Not thread-safe; one object per file and thread.
class LineReader {
 public:
  static Result<LineReader> open(const std::filesystem::path& path,
                                 std::uint64_t max_line_bytes = std::uint64_t{1} << 30);
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  /// Next line without its "\n" or "\r\n", or nothing at the end. The view holds until the next
  /// call.
  Result<std::optional<std::string_view>> next();
  std::uint64_t line_number() const;  ///< of the line last returned, from 1
  std::uint64_t offset() const;       ///< its first byte in the uncompressed stream
  std::uint64_t bytes_read() const;   ///< of the file as stored, for progress
  std::uint64_t file_bytes() const;

 private:
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads documents: objects with a string field "text" (key can be chosen), one a line. Blank lines
/// are passed over. Lone surrogate escapes ("\ud800") become U+FFFD; lines that are not UTF-8, not
/// an object or lack the field are errors of kind kInvalid with file and line in `where`, after
/// which the next call goes on with the next line; other errors are those of LineReader and end the
/// reading.
class JsonlReader {
 public:
  static Result<JsonlReader> open(const std::filesystem::path& path, std::string text_key = "text");
  JsonlReader(JsonlReader&&) noexcept;
  JsonlReader& operator=(JsonlReader&&) noexcept;
  ~JsonlReader();

  Result<std::optional<JsonlDocument>> next();
  std::uint64_t bytes_read() const;
  std::uint64_t file_bytes() const;

 private:
  struct State;
  explicit JsonlReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sx
