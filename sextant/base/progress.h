#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace sx {

/// Progress of long work on standard error: one line that is redrawn on a terminal, a line every 10
/// s elsewhere, nothing when quiet. Thread-safe.
///
///   tokenize  62 %  1.2 GiB of 1.9 GiB  210 MB/s  eta 12 s
class Progress {
 public:
  /// unit "bytes" prints sizes and rates as bytes; any other word is printed as it is. total 0 =
  /// unknown.
  Progress(std::string label, std::string unit, std::uint64_t total, bool quiet);
  ~Progress();  ///< as finish()
  void add(std::uint64_t amount);
  /// A short text behind the figures (for instance a running loss).
  void note(std::string text);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
