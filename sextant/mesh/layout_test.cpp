#include "sextant/mesh/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sextant/base/check.h"

namespace sx {
namespace {

using Offsets = std::vector<std::int64_t>;

constexpr Layout kNested{{2, 4}, {4, 1}};
static_assert(kNested.size() == 8 && kNested(5) == 5 && kNested.span_size() == 8);
static_assert(kNested.coalesce().modes().size() == 1);
static_assert(kNested == Layout{{8, 1}});

TEST(Layout, Examples) {
  const Layout columns{{3, 2}, {2, 6}};
  EXPECT_EQ(columns.offsets(), (Offsets{0, 6, 2, 8, 4, 10}));
  EXPECT_EQ(columns.sorted().offsets(), (Offsets{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(columns.to_string(), "(3,2)(2,6)");
  EXPECT_EQ(Layout{}.offsets(), Offsets{0});
  EXPECT_EQ(Layout{}.to_string(), "()");
  const std::int64_t sizes[] = {2, 3, 4};
  EXPECT_EQ(Layout::row_major(sizes), (Layout{{24, 1}}));
  EXPECT_EQ(Layout::row_major(sizes).to_string(), "(2,12)(3,4)(4,1)");
}

TEST(Layout, ComplementExamples) {
  EXPECT_EQ(Layout({{4, 1}}).complement(24).offsets(), (Offsets{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(Layout({{3, 2}}).complement(12).offsets(), (Offsets{0, 1, 6, 7}));
  EXPECT_EQ(Layout({{12, 1}}).complement(12).offsets(), Offsets{0});
  EXPECT_THROW(Layout({{3, 2}}).complement(10), ContractError);
  EXPECT_THROW(Layout({{3, 2}, {2, 3}}).complement(36), ContractError);
}

TEST(Layout, ComposeExamples) {
  const Layout outer{{4, 10}, {6, 1}};
  EXPECT_EQ(outer.compose(Layout{{2, 12}})->to_string(), "(2,20)");
  EXPECT_EQ(outer.compose(Layout{{12, 2}})->to_string(), "(4,10)(3,2)");
  EXPECT_FALSE(outer.compose(Layout{{2, 4}})) << "0 and 4: 4 does not divide 6";
  EXPECT_FALSE(outer.compose(Layout{{25, 1}})) << "past the end";
}

TEST(Layout, BadModesAreContractErrors) {
  EXPECT_THROW(Layout({{0, 1}}), ContractError);
  EXPECT_THROW(Layout({{2, 0}}), ContractError);
  Layout full;
  for (std::size_t i = 0; i < Layout::kMaxModes; ++i) full.push({2, 1});
  EXPECT_THROW(full.push({2, 1}), ContractError);
}

/// A random mixed-radix number: a world cut into modes that together cover it.
Layout random_world(std::mt19937_64& random) {
  std::vector<std::int64_t> sizes(1 + random() % 5);
  for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 4);
  return Layout::row_major(sizes);
}

TEST(LayoutProperty, ComplementCoversTheRest) {
  constexpr std::uint64_t kSeed = 1;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const Layout world = random_world(random);
    std::vector<Mode> modes(world.modes().begin(), world.modes().end());
    std::shuffle(modes.begin(), modes.end(), random);
    Layout part;
    for (std::size_t m = 0; m < modes.size() / 2; ++m) part.push(modes[m]);
    const Layout rest = part.complement(world.size());
    const Offsets of_rest = rest.offsets();
    EXPECT_TRUE(std::is_sorted(of_rest.begin(), of_rest.end()));
    std::set<std::int64_t> sums;
    for (const std::int64_t a : part.offsets()) {
      for (const std::int64_t b : of_rest) EXPECT_TRUE(sums.insert(a + b).second);
    }
    EXPECT_EQ(static_cast<std::int64_t>(sums.size()), world.size());
    EXPECT_EQ(*sums.rbegin(), world.size() - 1);
    // Flattening part and rest in any order is a bijection.
    Offsets both = part.then(rest).offsets();
    std::sort(both.begin(), both.end());
    EXPECT_EQ(both, world.offsets());
  }
}

TEST(LayoutProperty, CoalesceKeepsTheFunction) {
  constexpr std::uint64_t kSeed = 2;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    Layout layout;
    for (std::size_t m = random() % 5; m > 0; --m) {
      layout.push({1 + static_cast<std::int64_t>(random() % 4),
                   1 + static_cast<std::int64_t>(random() % 6)});
    }
    EXPECT_EQ(layout.coalesce().offsets(), layout.offsets());
    EXPECT_EQ(layout.coalesce(), layout);
    Offsets sorted = layout.sorted().offsets(), plain = layout.offsets();
    std::sort(sorted.begin(), sorted.end());
    std::sort(plain.begin(), plain.end());
    EXPECT_EQ(sorted, plain);
  }
}

TEST(LayoutProperty, ComposeIsTheFunctionOrNothing) {
  constexpr std::uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  int made = 0;
  for (int i = 0; i < 20000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const Layout outer = random_world(random);
    Layout inner;
    for (std::size_t m = 1 + random() % 2; m > 0; --m) {
      inner.push({1 + static_cast<std::int64_t>(random() % 6),
                  1 + static_cast<std::int64_t>(random() % 8)});
    }
    const std::optional<Layout> both = outer.compose(inner);
    if (!both) continue;
    ++made;
    ASSERT_EQ(both->size(), inner.size());
    for (std::int64_t k = 0; k < inner.size(); ++k) {
      ASSERT_LT(inner(k), outer.size());
      ASSERT_EQ((*both)(k), outer(inner(k))) << outer.to_string() << " after " << inner.to_string();
    }
  }
  EXPECT_GT(made, 1000);
}

TEST(LayoutProperty, UnflattenUndoesFlatten) {
  constexpr std::uint64_t kSeed = 4;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i));
    const Layout world = random_world(random);
    std::vector<Mode> modes(world.modes().begin(), world.modes().end());
    std::shuffle(modes.begin(), modes.end(), random);
    Layout flat;
    std::vector<std::int64_t> sizes;
    for (const Mode& mode : modes) {
      flat.push(mode);
      sizes.push_back(mode.size);
    }
    const auto axes = flat.unflatten(sizes);
    ASSERT_TRUE(axes);
    for (std::size_t m = 0; m < modes.size(); ++m) EXPECT_EQ((*axes)[m], Layout{modes[m]});
  }
  const std::int64_t three_two[] = {3, 2};
  EXPECT_FALSE((Layout{{2, 10}, {3, 1}}.unflatten(three_two)));
}

}  // namespace
}  // namespace sx
