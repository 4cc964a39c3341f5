#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sx {

/// One place of a blended order: the k-th sample (from 0) of a member.
struct BlendItem {
  std::uint32_t member = 0;
  std::uint64_t k = 0;
  friend bool operator==(const BlendItem&, const BlendItem&) = default;
};

/// Exact proportional order of members with integer weights: item (i, k) is due at (2k + 1) / w_i,
/// items sorted by due time, ties to the lowest member (Webster / Sainte-Lague apportionment). Pure
/// function of position; no floating point. Extending a run never reorders it.
///
/// Weights may change at given positions: from there on the new order starts at its own position 0
/// while each member's k goes on from its count.
class NativeBlend {
 public:
  /// At least one weight > 0; weights <= 2^31, positions < 2^62.
  explicit NativeBlend(std::vector<std::uint64_t> weights);
  /// `position` at or behind the last change.
  void change_weights(std::uint64_t position, std::vector<std::uint64_t> weights);

  /// O(D log D) for D members.
  BlendItem at(std::uint64_t position) const;
  /// Items of each member in [0, position).
  std::vector<std::uint64_t> counts(std::uint64_t position) const;
  std::size_t num_members() const { return segments_.front().weights.size(); }

  struct Segment {
    std::uint64_t position = 0;  ///< first position it holds for
    std::vector<std::uint64_t> weights;
    std::vector<std::uint64_t> base_counts;  ///< items of each member before it
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  const std::vector<Segment>& segments() const { return segments_; }

 private:
  std::vector<Segment> segments_;
};

}  // namespace sx
