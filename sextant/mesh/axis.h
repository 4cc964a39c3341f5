#pragma once

#include <cstdint>
#include <string>

namespace sx {

/// One axis of the device mesh. An axis belongs to the mesh, a dim to a tensor; the size of an axis
/// is its degree.
enum class Axis : std::uint8_t { kPp, kDpReplicate, kDpShard, kCp, kTp, kEp, kEtp, kEdp };

inline constexpr int kNumAxes = 8;

/// "pp", "dp_replicate", "dp_shard", "cp", "tp", "ep", "etp", "edp": the names recipes and reports
/// use.
const char* to_string(Axis axis);

/// The axes a group of ranks runs along: one axis, a view made of several (dp_shard x cp), or the
/// whole world.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(bit(axis)) {}  // NOLINT(google-explicit-constructor)
  /// The five dense axes: every rank there is.
  static constexpr AxisSet world() {
    return AxisSet(Axis::kPp) | Axis::kDpReplicate | Axis::kDpShard | Axis::kCp | Axis::kTp;
  }

  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    AxisSet both;
    both.bits_ = a.bits_ | b.bits_;
    return both;
  }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

  /// "dp_shard+cp" in the order of the enum; "world" for all dense axes; "none" for no axis.
  std::string to_string() const;

 private:
  static constexpr std::uint32_t bit(Axis axis) { return 1u << static_cast<unsigned>(axis); }
  std::uint32_t bits_ = 0;
};

}  // namespace sx
