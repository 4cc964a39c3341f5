#include "sextant/mesh/axis.h"

namespace sx {

const char* to_string(Axis axis) {
  switch (axis) {
    case Axis::kPp: return "pp";
    case Axis::kDpReplicate: return "dp_replicate";
    case Axis::kDpShard: return "dp_shard";
    case Axis::kCp: return "cp";
    case Axis::kTp: return "tp";
    case Axis::kEp: return "ep";
    case Axis::kEtp: return "etp";
    case Axis::kEdp: return "edp";
  }
  return "?";
}

std::string AxisSet::to_string() const {
  if (*this == world()) return "world";
  std::string names;
  for (int i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (!contains(axis)) continue;
    if (!names.empty()) names += '+';
    names += sx::to_string(axis);
  }
  return names.empty() ? "none" : names;
}

}  // namespace sx
