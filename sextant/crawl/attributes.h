#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sx {

/// Counts and sums about a text under fixed names: what rules compare with thresholds. No ratio and
/// no verdict is kept, so that a rule can be replayed with other thresholds. Names live as long as
/// the program.
class Attributes {
 public:
  void set(std::string_view name, double value);
  void add(std::string_view name, double value);
  /// 0 for a name that was not set.
  double get(std::string_view name) const;
  const std::vector<std::pair<std::string_view, double>>& all() const { return values_; }

 private:
  std::vector<std::pair<std::string_view, double>> values_;
};

}  // namespace sx
