#include "sextant/cp/cp_volume.h"

#include "sextant/base/check.h"
#include "sextant/cp/routes.h"

namespace sx {
namespace {

/// Elements of keys and values of one token with that many key heads.
std::int64_t key_value(const CpSizes& sizes, std::int64_t key_heads) {
  return 2 * sizes.rows * key_heads * sizes.head_dim;
}

CpVolume ring_volume(const CpPlan& plan, std::int64_t coord, const CpSizes& sizes,
                     std::int64_t key_heads) {
  std::int64_t tokens = 0, last = 0;
  for (const std::int64_t step : plan.ring_steps()) {
    last = plan.num_tokens((coord - step + plan.degree()) % plan.degree());
    tokens += last;
  }
  if (plan.ring_steps().size() == 1) return {};
  const std::int64_t per_token = key_value(sizes, key_heads);
  const std::int64_t keys = (tokens - last) * per_token * sizes.element_bytes;
  return {keys, keys + tokens * per_token * sizes.key_grad_bytes};
}

CpVolume gather_volume(const CpPlan& plan, std::int64_t coord, const CpSizes& sizes) {
  const std::int64_t per_token = key_value(sizes, sizes.key_heads), own = plan.num_tokens(coord);
  const std::int64_t others = (plan.num_tokens() - own) * per_token;
  return {others * sizes.element_bytes, others * (sizes.element_bytes + sizes.key_grad_bytes)};
}

CpVolume scatter_volume(const CpPlan& plan, std::int64_t coord, const CpSizes& sizes,
                        const HeadShares& shares, std::int64_t inner) {
  const std::int64_t first = coord / inner * inner;
  const auto me = static_cast<std::size_t>(coord - first);
  std::int64_t queries_out = 0, keys_out = 0, other_tokens = 0;
  for (std::int64_t j = 0; j < inner; ++j) {
    const auto member = static_cast<std::size_t>(j);
    if (member == me) continue;
    queries_out += plan.num_tokens(coord) * shares.query[member].second;
    keys_out += 2 * plan.num_tokens(coord) * shares.key[member].second;
    other_tokens += plan.num_tokens(first + j);
  }
  const std::int64_t queries_back = other_tokens * shares.query[me].second,
                     keys_back = 2 * other_tokens * shares.key[me].second;
  const std::int64_t bytes = sizes.rows * sizes.head_dim * sizes.element_bytes;
  return {(queries_out + keys_out + queries_back) * bytes,
          (queries_out + queries_back + keys_back) * bytes};
}

}  // namespace

CpVolume cp_volume(CpKind kind, const CpPlan& plan, std::int64_t coord, const CpSizes& sizes,
                   std::int64_t inner) {
  switch (kind) {
    case CpKind::kRing: return ring_volume(plan, coord, sizes, sizes.key_heads);
    case CpKind::kAllGather: return gather_volume(plan, coord, sizes);
    case CpKind::kUlysses: inner = plan.degree(); break;
    case CpKind::kHybrid: break;
  }
  SX_CHECK(inner >= 1 && plan.degree() % inner == 0, "inner degree {} does not divide {}", inner,
           plan.degree());
  const HeadShares shares(sizes.query_heads, sizes.key_heads, inner);
  const CpVolume heads = scatter_volume(plan, coord, sizes, shares, inner);
  const CpVolume ring = ring_volume(plan.joined(inner), coord / inner, sizes,
                                    shares.key[static_cast<std::size_t>(coord % inner)].second);
  return {heads.forward + ring.forward, heads.backward + ring.backward};
}

}  // namespace sx
