#pragma once

#include <string_view>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// A text file that grows line by line. Each line is one `write` call, so that a killed process
/// leaves at most one torn line, which the next opening cuts off. Not thread-safe.
class LineFile {
 public:
  enum class Existing { kReplace, kKeep };
  /// Makes the file and its folder when absent. Errors: kIo.
  static Result<LineFile> open(const fs::path& path, Existing existing);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  ~LineFile();

  /// True when nothing was written to it yet.
  bool empty() const { return bytes_ == 0; }
  /// `line` without its newline. Errors: kIo.
  Result<void> append(std::string_view line);

 private:
  LineFile(fs::path path, int fd, std::uint64_t bytes);
  void close();
  fs::path path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
};

/// One line of a text, for readers that report line numbers.
struct TextLine {
  std::size_t number = 0;  ///< from 1
  std::string_view text;
};
/// Takes the next complete line off `rest` (its newline removed). False at the end or before a torn
/// last line.
bool next_line(std::string_view& rest, TextLine& line);

}  // namespace sx
