#include "sextant/plan/volume.h"

#include <algorithm>

namespace sx {
namespace {

/// Share of a buffer that one rank of `degree` sends when each rank needs or gives all the others'.
double share(std::int64_t degree) {
  return static_cast<double>(degree - 1) / static_cast<double>(degree);
}

}  // namespace

DpVolume dp_volume_elements(const DpChoice& choice, std::int64_t padded, std::int64_t regathered) {
  const bool sharded = params_sharded(choice), cut = optimizer_sharded(choice);
  const auto p = static_cast<double>(padded);
  const auto again = static_cast<double>(regathered < 0 ? padded : regathered);
  const auto m = static_cast<double>(choice.microbatches);
  const std::int64_t shards = choice.num_shards, replicas = choice.num_replicas;
  const auto w = static_cast<double>(shards);
  const double reductions = sums_locally(choice) ? 1 : m;

  DpVolume volume;
  if (sharded) {
    switch (choice.release) {
      case Release::kKeepShard:
        // The second time among the neighbours.
        volume.gather = p * m * share(shards) + again * m * share(choice.keep_ways);
        break;
      case Release::kFits:
      case Release::kAfterUse: volume.gather = (p + again) * m * share(shards); break;
      case Release::kAfterBackward: volume.gather = p * m * share(shards); break;
      case Release::kAfterStep: volume.gather = p * share(shards); break;
    }
  } else if (cut) {
    volume.gather = p * share(shards);
  } else {
    volume.gather = 0;
  }
  const bool flat = choice.flat_order && replicas > 1;
  if (cut && !(flat && shards == 1)) {
    volume.reduce = reductions *
                    (flat ? p * static_cast<double>(replicas * shards - 1) / w : p * share(shards));
  } else {
    // The all_reduce of ddp: as reduce_scatter and all_gather, nested or over all ranks at once.
    volume.reduce = reductions * 2 * p * share(flat ? replicas * shards : shards);
  }
  if (replicas > 1 && !flat) {
    volume.replicate = 2 * (p / w) * share(replicas);
  } else if (flat && choice.optimizer_over_replicas) {
    volume.replicate = (p / w) * share(replicas);
  }
  return volume;
}

DpVolume dp_volume_bytes(const DpPlan& plan) {
  DpVolume bytes;
  // The unit that backward begins with keeps its parameters.
  const std::size_t first_in_backward = plan.units.empty() ? 0 : plan.units.size() - 1;
  for (const DpBuffer& buffer : plan.buffers) {
    const DpChoice& choice = buffer.choice;
    const std::int64_t numel = buffer.layout.gathered_numel();
    const bool kept = buffer.units.size() > 1 ||
                      std::count(buffer.units.begin(), buffer.units.end(), first_in_backward) > 0;
    const DpVolume one = dp_volume_elements(choice, numel, kept ? 0 : numel);
    bytes.gather += one.gather * static_cast<double>(choice.bytes.param);
    const bool nested_ddp =
        !optimizer_sharded(choice) && choice.num_replicas > 1 && !choice.flat_order;
    // Nested over replicas, ddp spreads the sums that it keeps, in the main type.
    bytes.reduce +=
        nested_ddp ? one.reduce / 2 * static_cast<double>(choice.bytes.reduce + choice.bytes.main)
                   : one.reduce * static_cast<double>(choice.bytes.reduce);
    if (choice.optimizer_over_replicas && optimizer_sharded(choice)) {
      // Gradients are reduce_scattered over replicas, parameters gathered.
      const double half = one.replicate / (choice.flat_order ? 1 : 2);
      const double gradients = choice.flat_order ? 0 : half;
      bytes.replicate += gradients * static_cast<double>(choice.bytes.reduce) +
                         half * static_cast<double>(choice.bytes.param);
    } else {
      bytes.replicate += one.replicate * static_cast<double>(choice.bytes.reduce);
    }
  }
  return bytes;
}

}  // namespace sx
