#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// Gradient-boosted regression trees for one probability: sum of leaves, then the logistic
/// function.
///
/// Text form: "sxtrees 1 TREES FEATURES BIAS", then one line a tree: nodes in pre-order, "f t"
/// (feature, threshold; left when value <= t) or "= v" (leaf).
/// Source: Friedman, Greedy function approximation, 2001; second-order leaves as in Chen and
/// Guestrin, XGBoost, 2016.
class BoostedTrees {
 public:
  struct Node {
    std::int16_t feature = -1;  ///< -1 = leaf
    float value = 0;            ///< threshold, or the leaf's weight
    std::uint32_t right = 0;    ///< index of the right child; the left one follows the node
  };

  struct TrainOptions {
    std::size_t trees = 150;
    std::size_t max_leaves = 31;
    double rate = 0.1;
    double l2 = 5;
    double sample = 0.5;     ///< share of the rows each tree is grown on
    double min_weight = 20;  ///< of the rows in a leaf
  };

  /// `rows` holds num_rows x num_features values, row by row; labels are in [0, 1]; weights >= 0.
  /// The result is a function of the arguments alone.
  static BoostedTrees train(std::span<const float> rows, std::size_t num_features,
                            std::span<const float> labels, std::span<const float> weights,
                            const TrainOptions& options);

  /// Probability for one row of num_features() values.
  double predict(std::span<const float> row) const;
  std::size_t num_features() const { return num_features_; }
  std::size_t num_trees() const { return trees_.size(); }

  std::string to_text() const;
  /// Errors: kCorrupt with what is wrong: sizes are checked before anything is kept.
  static Result<BoostedTrees> from_text(std::string_view text);

 private:
  double bias_ = 0;
  std::size_t num_features_ = 0;
  std::vector<std::vector<Node>> trees_;
};

}  // namespace sx
