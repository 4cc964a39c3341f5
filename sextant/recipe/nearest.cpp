#include <algorithm>

#include "sextant/recipe/command_line.h"

namespace sx {
namespace {

/// Damerau-Levenshtein distance in its optimal-string-alignment form.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  constexpr std::size_t kFarthest = 3;
  constexpr std::size_t kLongestWord = 200;
  std::string best;
  std::size_t best_distance = kFarthest + 1;
  if (word.size() > kLongestWord) return best;
  for (const std::string& name : names) {
    const std::size_t gap =
        name.size() > word.size() ? name.size() - word.size() : word.size() - name.size();
    if (gap >= best_distance) continue;
    const std::size_t distance = edit_distance(word, name);
    if (distance < best_distance && distance < std::max(word.size(), name.size())) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace sx
