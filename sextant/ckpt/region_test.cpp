#include "sextant/ckpt/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "sextant/base/rng.h"

namespace sx {
namespace {

/// Global indices of a region's elements in its own order, by counting.
std::vector<std::int64_t> elements_of(const std::vector<std::int64_t>& shape,
                                      const Region& region) {
  std::vector<std::int64_t> out;
  if (region.kind == Region::Kind::kFlat) {
    for (std::int64_t i = 0; i < region.size[0]; ++i) out.push_back(region.offset[0] + i);
    return out;
  }
  const std::int64_t total = num_elements(shape);
  for (std::int64_t global = 0; global < total; ++global) {
    std::int64_t rest = global;
    bool inside = true;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      const std::int64_t index = rest % shape[dim];
      rest /= shape[dim];
      inside =
          inside && index >= region.offset[dim] && index < region.offset[dim] + region.size[dim];
    }
    if (inside) out.push_back(global);
  }
  return out;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, "test.region") {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_.u64(next_++) % static_cast<std::uint64_t>(n));
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> out(static_cast<std::size_t>(below(4)));
    for (std::int64_t& extent : out) extent = 1 + below(5);
    return out;
  }
  Region region(const std::vector<std::int64_t>& shape) {
    if (below(3) == 0) {
      const std::int64_t total = num_elements(shape);
      const std::int64_t first = below(total);
      return Region::flat(first, 1 + below(total - first));
    }
    Region box = Region::whole(shape);
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      box.offset[dim] = below(shape[dim]);
      box.size[dim] = 1 + below(shape[dim] - box.offset[dim]);
    }
    return box;
  }

 private:
  RandomStream random_;
  std::uint64_t next_ = 0;
};

constexpr std::uint64_t kSeed = 21;

TEST(Region, CommonRunsAgainstCounting) {
  Draw draw(kSeed);
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE("seed 21, round " + std::to_string(round));
    const auto shape = draw.shape();
    const Region a = draw.region(shape), b = draw.region(shape);
    const auto in_a = elements_of(shape, a), in_b = elements_of(shape, b);
    std::map<std::int64_t, std::int64_t> place_b;
    for (std::size_t i = 0; i < in_b.size(); ++i) place_b[in_b[i]] = static_cast<std::int64_t>(i);
    std::map<std::int64_t, std::int64_t> want, got;
    for (std::size_t i = 0; i < in_a.size(); ++i) {
      const auto found = place_b.find(in_a[i]);
      if (found != place_b.end()) want[static_cast<std::int64_t>(i)] = found->second;
    }
    for_each_common_run(shape, a, b, [&](std::int64_t x, std::int64_t y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) EXPECT_TRUE(got.emplace(x + i, y + i).second);
    });
    ASSERT_EQ(got, want);
  }
}

TEST(Region, RunsWithinARangeAgainstCounting) {
  Draw draw(kSeed + 1);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("seed 22, round " + std::to_string(round));
    const auto shape = draw.shape();
    const Region region = draw.region(shape);
    const std::int64_t total = num_elements(shape);
    const std::int64_t begin = draw.below(total), end = begin + draw.below(total - begin + 1);
    const auto elements = elements_of(shape, region);
    std::vector<std::pair<std::int64_t, std::int64_t>> want, got;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] >= begin && elements[i] < end)
        want.emplace_back(elements[i], static_cast<std::int64_t>(i));
    }
    for_each_run(shape, region, begin, end,
                 [&](std::int64_t first, std::int64_t local, std::int64_t count) {
                   for (std::int64_t i = 0; i < count; ++i) got.emplace_back(first + i, local + i);
                 });
    ASSERT_EQ(got, want);
  }
}

TEST(Region, CutsAreTheElementsInOrder) {
  Draw draw(kSeed + 2);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("seed 23, round " + std::to_string(round));
    const auto shape = draw.shape();
    const Region region = draw.region(shape);
    const std::int64_t total = region.num_elements();
    const std::int64_t begin = draw.below(total), end = begin + draw.below(total - begin + 1);
    const auto all = elements_of(shape, region);
    std::vector<std::int64_t> got;
    const auto cuts = cut_region(region, begin, end);
    for (const Region& cut : cuts) {
      const auto part = elements_of(shape, cut);
      got.insert(got.end(), part.begin(), part.end());
    }
    ASSERT_EQ(got, std::vector<std::int64_t>(all.begin() + begin, all.begin() + end));
    EXPECT_LE(cuts.size(), std::max<std::size_t>(1, 2 * shape.size()));
  }
}

}  // namespace
}  // namespace sx
