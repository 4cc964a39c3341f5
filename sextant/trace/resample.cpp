#include <algorithm>
#include <cmath>

#include "sextant/base/check.h"
#include "sextant/trace/svg.h"

namespace sx {

std::vector<Bucket> resample(const std::vector<std::pair<double, double>>& points,
                             int max_buckets) {
  SX_CHECK(max_buckets >= 1, "resample into {} parts", max_buckets);
  std::vector<std::pair<double, double>> finite;
  finite.reserve(points.size());
  for (const auto& point : points) {
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  }
  std::vector<Bucket> buckets;
  if (finite.size() <= static_cast<std::size_t>(max_buckets)) {
    for (const auto& [x, y] : finite) buckets.push_back({x, y, y, y, 1});
    return buckets;
  }
  const double low = finite.front().first;
  const double span = finite.back().first - low;
  const auto part_of = [&](double x) {
    if (!(span > 0)) return 0;
    return std::clamp(static_cast<int>((x - low) / span * max_buckets), 0, max_buckets - 1);
  };
  std::vector<std::pair<double, double>> part;  // (y, x) of one bucket
  for (std::size_t begin = 0; begin < finite.size();) {
    const int index = part_of(finite[begin].first);
    std::size_t end = begin;
    part.clear();
    while (end < finite.size() && part_of(finite[end].first) == index) {
      part.emplace_back(finite[end].second, finite[end].first);
      ++end;
    }
    const auto middle = part.begin() + static_cast<std::ptrdiff_t>((part.size() - 1) / 2);
    std::nth_element(part.begin(), middle, part.end());
    const double median = middle->first;
    const auto [min, max] = std::minmax_element(part.begin(), part.end());
    // Parts are drawn at their middle, so that the line does not jump about within them.
    const double x = (finite[begin].first + finite[end - 1].first) / 2;
    buckets.push_back({x, min->first, median, max->first, static_cast<std::int64_t>(part.size())});
    begin = end;
  }
  return buckets;
}

}  // namespace sx
