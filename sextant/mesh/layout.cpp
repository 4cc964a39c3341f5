#include "sextant/mesh/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace sx {

Layout Layout::row_major(std::span<const std::int64_t> sizes) {
  std::int64_t stride = 1;
  for (const std::int64_t size : sizes) stride *= size;
  Layout result;
  for (const std::int64_t size : sizes) {
    SX_CHECK(size >= 1, "size {}", size);
    stride /= size;
    result.push({size, stride});
  }
  return result;
}

std::vector<std::int64_t> Layout::offsets() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = (*this)(static_cast<std::int64_t>(i));
  return all;
}

Layout Layout::sorted() const {
  Layout result = coalesce();
  std::stable_sort(result.modes_.begin(),
                   result.modes_.begin() + static_cast<std::ptrdiff_t>(result.num_modes_),
                   [](const Mode& a, const Mode& b) { return a.stride > b.stride; });
  return result.coalesce();
}

Layout Layout::complement(std::int64_t world) const {
  const Layout own = sorted();
  std::vector<Mode> rising;  // modes of the result, fastest first
  std::int64_t covered = 1;
  for (std::size_t i = own.num_modes_; i-- > 0;) {
    const Mode mode = own.modes_[i];
    SX_CHECK(mode.stride % covered == 0, "layout {} overlaps itself or leaves uneven gaps",
             to_string());
    rising.push_back({mode.stride / covered, covered});
    covered = mode.size * mode.stride;
  }
  SX_CHECK(world >= 1 && world % covered == 0, "layout {} does not divide {} offsets", to_string(),
           world);
  rising.push_back({world / covered, covered});
  Layout result;
  for (auto mode = rising.rbegin(); mode != rising.rend(); ++mode) result.push(*mode);
  return result.coalesce();
}

namespace {

/// Modes, fastest first, of index -> outer(index * step) for `count` indices; false when that is no
/// layout.
bool compose_mode(std::span<const Mode> outer, std::int64_t count, std::int64_t step,
                  std::vector<Mode>& fastest_first) {
  for (std::size_t i = outer.size(); i-- > 0 && count > 1;) {
    const Mode mode = outer[i];
    if (step >= mode.size) {
      if (step % mode.size != 0) return false;
      step /= mode.size;
      continue;
    }
    if (mode.size % step != 0) return false;
    const std::int64_t room = mode.size / step;
    const std::int64_t taken = std::min(room, count);
    if (count % taken != 0) return false;
    fastest_first.push_back({taken, mode.stride * step});
    count /= taken;
    step = 1;
  }
  return count == 1;
}

}  // namespace

std::optional<Layout> Layout::compose(const Layout& inner) const {
  const Layout outer = coalesce();
  const Layout cut = inner.coalesce();
  Layout result;
  for (const Mode& mode : cut.modes()) {
    std::vector<Mode> fastest_first;
    if (!compose_mode(outer.modes(), mode.size, mode.stride, fastest_first)) return std::nullopt;
    for (auto part = fastest_first.rbegin(); part != fastest_first.rend(); ++part)
      result.push(*part);
  }
  // Digits of different modes may carry into each other (strides that do not nest); then the sum of
  // the parts is not the function.
  if (cut.modes().size() > 1) {
    for (std::int64_t i = 0; i < cut.size(); ++i) {
      if (cut(i) >= outer.size() || result(i) != outer(cut(i))) return std::nullopt;
    }
  }
  return result.coalesce();
}

std::optional<std::vector<Layout>> Layout::unflatten(std::span<const std::int64_t> sizes) const {
  const Layout digits = row_major(sizes);
  SX_CHECK(digits.size() == size(), "cut of an axis of {} into a product of {}", size(),
           digits.size());
  std::vector<Layout> axes;
  for (const Mode& digit : digits.modes()) {
    std::optional<Layout> axis = compose(Layout{digit});
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
  }
  return axes;
}

std::string Layout::to_string() const {
  std::string text;
  for (const Mode& mode : modes()) text += fmt::format("({},{})", mode.size, mode.stride);
  return text.empty() ? "()" : text;
}

}  // namespace sx
