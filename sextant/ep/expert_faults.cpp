#include "sextant/ep/expert_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sx {

std::vector<std::int64_t> legal_ep(std::int64_t num_experts, std::int64_t ranks) {
  std::vector<std::int64_t> legal;
  for (std::int64_t ep = 1; ep <= ranks && ep <= num_experts; ++ep) {
    if (num_experts % ep == 0 && ranks % ep == 0) legal.push_back(ep);
  }
  return legal;
}

std::vector<Diagnostic> expert_faults(const ModelShape& shape, const ParallelDims& dims) {
  std::vector<Diagnostic> found;
  const std::int64_t inner = dims.dp_shard * dims.cp * dims.tp;
  if (shape.num_experts == 0) {
    if (dims.ep * dims.etp > 1) {
      found.push_back(user_fault(
          23, fmt::format("ep * etp = {} * {}, but the model has no experts", dims.ep, dims.etp),
          "parallelism.ep", "only experts are spread over ep and etp", "set both to 1"));
    }
    return found;
  }
  if (shape.experts_topk > shape.num_experts) {
    found.push_back(user_fault(
        23,
        fmt::format("experts_topk = {} of num_experts = {}", shape.experts_topk, shape.num_experts),
        "model.experts_topk", "a token chooses an expert at most once",
        fmt::format("choose 1 to {}", shape.num_experts)));
  }
  if (shape.num_experts % dims.ep != 0) {
    const auto legal = legal_ep(shape.num_experts, inner / dims.etp);
    found.push_back(user_fault(
        23, fmt::format("ep = {} does not divide num_experts = {}", dims.ep, shape.num_experts),
        "parallelism.ep", "every rank of ep has the same number of experts",
        fmt::format("legal here: ep = {}", fmt::join(legal, ", "))));
  }
  if (shape.expert_hidden % dims.etp != 0) {
    found.push_back(user_fault(
        23,
        fmt::format("etp = {} does not divide expert_hidden = {}", dims.etp, shape.expert_hidden),
        "parallelism.etp", "the features of an expert are cut evenly over etp",
        fmt::format("legal here: etp = {}",
                    fmt::join(legal_ep(shape.expert_hidden, inner / dims.ep), ", "))));
  }
  return found;
}

}  // namespace sx
