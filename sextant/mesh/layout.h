#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sextant/base/check.h"

namespace sx {

/// `size` offsets, each `stride` from the one before.
struct Mode {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  friend constexpr bool operator==(const Mode&, const Mode&) = default;
};

/// A function from an index 0 .. size()-1 to an offset, as a tuple of (size, stride) modes: the
/// index is split as a row-major number whose last mode runs fastest, and each digit is multiplied
/// by its mode's stride. An axis of a mesh is a layout over ranks; slices, flattened axes and cut
/// axes are layouts again, found without talking to anybody. (The algebra is that of CuTe's
/// layouts, docs.nvidia.com/cutlass; here modes are listed slowest first.)
///
/// Errors: ContractError for sizes or strides below 1, more than kMaxModes modes, and where a
///         function says so.
class Layout {
 public:
  static constexpr std::size_t kMaxModes = 16;

  /// No modes: the one index 0 at offset 0.
  constexpr Layout() = default;
  constexpr Layout(std::initializer_list<Mode> modes) {
    for (const Mode& mode : modes) push(mode);
  }
  /// Strides so that offset = index.
  static Layout row_major(std::span<const std::int64_t> sizes);

  constexpr void push(Mode mode) {
    SX_CHECK(mode.size >= 1 && mode.stride >= 1, "mode ({}, {})", mode.size, mode.stride);
    SX_CHECK(num_modes_ < kMaxModes, "more than {} modes", kMaxModes);
    modes_[num_modes_++] = mode;
  }
  constexpr std::span<const Mode> modes() const { return {modes_.data(), num_modes_}; }

  constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (const Mode& mode : modes()) product *= mode.size;
    return product;
  }
  /// Largest offset + 1.
  constexpr std::int64_t span_size() const {
    std::int64_t last = 0;
    for (const Mode& mode : modes()) last += (mode.size - 1) * mode.stride;
    return last + 1;
  }
  constexpr std::int64_t operator()(std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t i = num_modes_; i-- > 0;) {
      offset += index % modes_[i].size * modes_[i].stride;
      index /= modes_[i].size;
    }
    return offset;
  }
  /// The offsets of all indices.
  std::vector<std::int64_t> offsets() const;

  /// The same function with as few modes as possible: modes of size 1 go, neighbours that continue
  /// each other are joined.
  constexpr Layout coalesce() const {
    Layout result;
    for (const Mode& mode : modes()) {
      if (mode.size == 1) continue;
      if (result.num_modes_ > 0) {
        Mode& left = result.modes_[result.num_modes_ - 1];
        if (left.stride == mode.size * mode.stride) {
          left = {left.size * mode.size, mode.stride};
          continue;
        }
      }
      result.push(mode);
    }
    return result;
  }

  /// Modes by falling stride: the same offsets, now rising with the index when modes do not
  /// interleave.
  Layout sorted() const;

  /// The layout of the offsets this one leaves out of 0 .. world-1: every offset is one of this
  /// layout plus one of the complement, in exactly one way; the complement's offsets rise. Errors:
  /// ContractError unless the sorted strides divide each other in turn and, at last, `world`.
  Layout complement(std::int64_t world) const;

  /// index -> (*this)(inner(index)). Empty when the result is no layout (a cut that falls inside a
  /// mode) or reaches past size().
  std::optional<Layout> compose(const Layout& inner) const;

  /// The modes of this layout, then those of `faster`: flattens two axes into one.
  constexpr Layout then(const Layout& faster) const {
    Layout result = *this;
    for (const Mode& mode : faster.modes()) result.push(mode);
    return result;
  }

  /// Cuts one axis into several, slowest first; the product of sizes is size(). Empty when a cut
  /// falls inside a mode.
  std::optional<std::vector<Layout>> unflatten(std::span<const std::int64_t> sizes) const;

  /// "(2,8)(4,1)"; "()" for no modes.
  std::string to_string() const;

  /// Equal modes, after coalescing: equal functions have equal coalesced modes.
  friend constexpr bool operator==(const Layout& a, const Layout& b) {
    const Layout left = a.coalesce(), right = b.coalesce();
    if (left.num_modes_ != right.num_modes_) return false;
    for (std::size_t i = 0; i < left.num_modes_; ++i) {
      if (left.modes_[i] != right.modes_[i]) return false;
    }
    return true;
  }

 private:
  std::array<Mode, kMaxModes> modes_{};
  std::size_t num_modes_ = 0;
};

}  // namespace sx
