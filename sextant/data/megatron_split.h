#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"

namespace sx {

/// How Megatron-LM reads `--split` and `--data-path` (`blended_megatron_dataset_config.py`,
/// `utils.py`), to the last bit of every double.

/// numpy.sum of doubles: fewer than 8 terms in order; up to 128 as eight running sums; more are
/// halved at a multiple of 8 and the halves added.
double numpy_sum(const double* values, std::size_t count);
/// values / numpy_sum(values).
std::vector<double> numpy_normalize(const std::vector<double>& values);

/// The shares of train, valid and test.
struct MegatronSplit {
  std::array<double, 3> vector{};  ///< normalised
  /// [low, high) of each as shares of the whole; nothing where a part is empty.
  std::array<std::optional<std::pair<double, double>>, 3> bounds;

  /// Sequences [first, last) of part `part` (0 train, 1 valid, 2 test) of `count`: shares rounded
  /// half to even. Parts without bounds have none.
  std::pair<std::uint64_t, std::uint64_t> range(std::size_t part, std::uint64_t count) const;
  /// `split_matrix` of a cache's description: the first bound is the integer 0, others are floats.
  nlohmann::ordered_json matrix_json() const;
};

/// Every run of digits and points in `text` is a number: "969,30,1", "0.7 0.2 0.1", "1". One to
/// three of them, missing ones are 0. Errors: kInvalid for none, more than three, one with two
/// points, or all 0.
Result<MegatronSplit> parse_megatron_split(std::string_view text);

/// Prefixes and their weights.
struct MegatronBlend {
  std::vector<std::string> paths;
  std::optional<std::vector<double>> weights;  ///< one per path; nothing = by length
  friend bool operator==(const MegatronBlend&, const MegatronBlend&) = default;
};

/// The words behind `--data-path`: an odd number are prefixes; an even number are pairs of weight
/// and prefix when every first of a pair reads as a number, prefixes when none does. Prefixes lose
/// blanks at both ends. Errors: kInvalid for no word, or weights for some prefixes only.
Result<MegatronBlend> parse_data_path(const std::vector<std::string>& words);

}  // namespace sx
