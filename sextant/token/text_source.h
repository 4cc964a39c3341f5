#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// First place, of those behind at least `min_bytes` bytes, where `text` may be cut without
/// changing a piece of any split rule; 0 when there is none. Places before `from` are known to be
/// none.
std::size_t find_safe_cut(std::string_view text, std::size_t min_bytes, std::size_t from = 0);

/// The texts of several files, one after the other: documents of JSON-lines files (`.jsonl`, plain,
/// `.gz` or `.zst`), and parts of any other file, which is taken as plain text.
///
/// Plain text is cut into parts of at least `part_bytes` where a cut changes no piece of any split
/// rule: behind a newline that stands between an ASCII character that is no space and an ASCII
/// letter or digit. Parts are a function of the bytes alone.
///
/// Not thread-safe. Errors: kNotFound, kIo; kCorrupt for damaged or cut compressed data. A line
/// that is no document is counted, not an error.
class TextSource {
 public:
  /// Place between two texts: read again from here by `seek`.
  struct Place {
    std::uint64_t file_idx = 0;
    std::uint64_t text_idx = 0;  ///< texts (good and bad) of that file passed so far
    friend bool operator==(const Place&, const Place&) = default;
  };

  static constexpr std::size_t kPartBytes = std::size_t{1} << 20;

  TextSource(std::vector<std::filesystem::path> files, std::string text_key = "text",
             std::size_t part_bytes = kPartBytes);
  ~TextSource();
  TextSource(TextSource&&) noexcept;
  TextSource& operator=(TextSource&&) noexcept;

  /// Next text, or nothing at the end of the last file.
  Result<std::optional<std::string>> next();
  Place place() const;
  /// Goes to a place that `place()` gave, by reading from the start of its file.
  Result<void> seek(Place place);

  std::uint64_t bad_documents() const;
  /// First three bad documents, "file:line: what".
  const std::vector<std::string>& bad_examples() const;
  /// Bytes of the files as stored, passed so far and in total, for progress.
  std::uint64_t stored_bytes_read() const;
  std::uint64_t stored_bytes_total() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
