#include "sextant/data/blend_native.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "sextant/base/check.h"

namespace sx {

namespace {

__extension__ using Wide = unsigned __int128;

void check_weights(const std::vector<std::uint64_t>& weights) {
  bool positive = false;
  for (const std::uint64_t weight : weights) {
    SX_CHECK(weight <= std::uint64_t{1} << 31, "weight {} above 2^31", weight);
    positive = positive || weight > 0;
  }
  SX_CHECK(positive, "no weight above 0");
}

/// Counts of one segment's first t items, and the item at place t.
struct Place {
  std::vector<std::uint64_t> counts;
  BlendItem next;
};

Place place_at(const std::vector<std::uint64_t>& weights, std::uint64_t t) {
  Wide sum = 0;
  std::uint64_t members = 0;
  for (const std::uint64_t weight : weights) {
    sum += weight;
    members += weight > 0 ? 1 : 0;
  }
  Place place;
  place.counts.assign(weights.size(), 0);
  std::uint64_t done = 0;
  // w_i (2t - D) / (2W) never exceeds the true count; what is missing (at most 1.5 D items) is
  // taken from a heap.
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (2 * Wide{t} > members) {
      place.counts[i] =
          static_cast<std::uint64_t>(Wide{weights[i]} * (2 * Wide{t} - members) / (2 * sum));
    }
    done += place.counts[i];
  }
  SX_CHECK(done <= t, "blend counts {} at position {}", done, t);
  const auto later = [&](std::uint32_t a, std::uint32_t b) {
    const Wide due_a = (2 * Wide{place.counts[a]} + 1) * weights[b];
    const Wide due_b = (2 * Wide{place.counts[b]} + 1) * weights[a];
    return due_a != due_b ? due_a > due_b : a > b;
  };
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(later)> heap(later);
  for (std::uint32_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) heap.push(i);
  }
  for (; done < t; ++done) {
    const std::uint32_t member = heap.top();
    heap.pop();
    ++place.counts[member];
    heap.push(member);
  }
  place.next = {heap.top(), place.counts[heap.top()]};
  return place;
}

}  // namespace

NativeBlend::NativeBlend(std::vector<std::uint64_t> weights) {
  check_weights(weights);
  const std::size_t members = weights.size();
  segments_.push_back({0, std::move(weights), std::vector<std::uint64_t>(members, 0)});
}

void NativeBlend::change_weights(std::uint64_t position, std::vector<std::uint64_t> weights) {
  check_weights(weights);
  SX_CHECK(weights.size() == num_members(), "{} weights for {} members", weights.size(),
           num_members());
  SX_CHECK(position >= segments_.back().position, "weights change at {}, before {}", position,
           segments_.back().position);
  std::vector<std::uint64_t> base = counts(position);
  segments_.push_back({position, std::move(weights), std::move(base)});
}

BlendItem NativeBlend::at(std::uint64_t position) const {
  const Segment& segment = *std::prev(
      std::upper_bound(segments_.begin(), segments_.end(), position,
                       [](std::uint64_t value, const Segment& s) { return value < s.position; }));
  if (num_members() == 1) return {0, segment.base_counts[0] + position - segment.position};
  BlendItem item = place_at(segment.weights, position - segment.position).next;
  item.k += segment.base_counts[item.member];
  return item;
}

std::vector<std::uint64_t> NativeBlend::counts(std::uint64_t position) const {
  const Segment& segment = *std::prev(
      std::upper_bound(segments_.begin(), segments_.end(), position,
                       [](std::uint64_t value, const Segment& s) { return value < s.position; }));
  std::vector<std::uint64_t> counts = place_at(segment.weights, position - segment.position).counts;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += segment.base_counts[i];
  return counts;
}

}  // namespace sx
