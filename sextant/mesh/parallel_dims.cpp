#include "sextant/mesh/parallel_dims.h"

#include <fmt/format.h>

#include <limits>

namespace sx {
namespace {

constexpr Axis kGiven[] = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                           Axis::kTp, Axis::kEp,          Axis::kEtp};

}  // namespace

std::int64_t ParallelDims::degree(Axis axis) const {
  switch (axis) {
    case Axis::kPp: return pp;
    case Axis::kDpReplicate: return dp_replicate;
    case Axis::kDpShard: return dp_shard;
    case Axis::kCp: return cp;
    case Axis::kTp: return tp;
    case Axis::kEp: return ep;
    case Axis::kEtp: return etp;
    case Axis::kEdp: return edp();
  }
  return 1;
}

std::vector<Diagnostic> ParallelDims::faults() const {
  std::vector<Diagnostic> found;
  for (const Axis axis : kGiven) {
    if (degree(axis) >= 1) continue;
    found.push_back(
        user_fault(3, fmt::format("parallelism.{} = {}", sx::to_string(axis), degree(axis)),
                   fmt::format("parallelism.{}", sx::to_string(axis)), "a degree is at least 1",
                   "set it to 1 to switch the axis off"));
  }
  if (!found.empty()) return found;

  std::int64_t product = 1;
  for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp}) {
    if (degree(axis) > std::numeric_limits<std::int32_t>::max() / product) {
      found.push_back(user_fault(3, "the product of the parallel degrees is above 2^31 - 1",
                                 "parallelism", "a mesh has fewer than 2^31 ranks",
                                 "lower one of the degrees"));
      return found;
    }
    product *= degree(axis);
  }
  const std::int64_t inner = dp_shard * cp * tp;
  if (ep > inner || etp > inner || inner % (ep * etp) != 0) {
    found.push_back(user_fault(
        11,
        fmt::format("ep * etp = {} * {} does not divide dp_shard * cp * tp = {} * {} * {} = {}", ep,
                    etp, dp_shard, cp, tp, inner),
        "parallelism.ep", "experts are spread over the ranks of dp_shard, cp and tp",
        "choose ep and etp among the divisors of that product"));
  }
  return found;
}

std::vector<Diagnostic> ParallelDims::faults(std::int64_t world) const {
  std::vector<Diagnostic> found = faults();
  bool positive = true;
  for (const Diagnostic& fault : found) positive = positive && fault.number != 3;
  if (positive && world_size() != world) {
    found.push_back(user_fault(
        10,
        fmt::format(
            "pp * dp_replicate * dp_shard * cp * tp = {} * {} * {} * {} * {} = {}, but there are "
            "{} ranks",
            pp, dp_replicate, dp_shard, cp, tp, world_size(), world),
        "parallelism", "the product of the degrees is the number of ranks",
        "change a degree, or start another number of ranks"));
  }
  return found;
}

std::string ParallelDims::to_string() const {
  std::string text;
  for (const Axis axis : kGiven) {
    if (degree(axis) == 1) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", sx::to_string(axis), degree(axis));
  }
  return text.empty() ? "1 rank" : text;
}

}  // namespace sx
