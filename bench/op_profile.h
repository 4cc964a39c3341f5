#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sx {

/// Own time of every LibTorch operator on this thread (time in operators it calls taken out), while
/// the object lives. One at a time.
class OpProfile {
 public:
  OpProfile();
  ~OpProfile();
  OpProfile(const OpProfile&) = delete;
  OpProfile& operator=(const OpProfile&) = delete;

  void reset();
  /// Seconds by operator, largest first.
  std::vector<std::pair<std::string, double>> seconds() const;

 private:
  struct State;
  static State& state();
  unsigned long handle_;
};

}  // namespace sx
