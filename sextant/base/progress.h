#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace sx {

/// Progress of long work on standard error: one line that is redrawn on a terminal, a line every 10
/// s elsewhere, and a last line at the end; nothing when quiet. Thread-safe.
///
///   tokenize  62 %  1.20 GiB of 1.90 GiB  210 MB/s  eta 12.0 s
class Progress {
 public:
  /// unit "bytes" prints sizes and rates as bytes; any other word is printed as it is. total 0 =
  /// unknown.
  Progress(std::string label, std::string unit, std::uint64_t total, bool quiet);
  ~Progress();  ///< as finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void add(std::uint64_t amount);
  /// A short text behind the figures (for instance a running loss).
  void note(std::string text);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ProgressFigures {
  std::string label;
  std::string unit;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double seconds = 0;
  std::string note;
  bool finished = false;
};
/// The line for these figures; rates are decimal (MB/s), as disks and networks state theirs.
std::string progress_line(const ProgressFigures& figures);

}  // namespace sx
