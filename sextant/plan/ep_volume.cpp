#include "sextant/plan/ep_volume.h"

namespace sx {

EpTraffic ep_layer_traffic(const EpChoice& choice) {
  constexpr std::int64_t kCountBytes = 4, kMapBytes = 4;
  const std::int64_t pairs = choice.tokens * choice.topk, others = choice.ep - 1;
  EpTraffic out;
  if (choice.all_gather) {
    out.rows = 2 * others * choice.tokens * choice.hidden * choice.stream_bytes;
    out.weights = others * pairs * choice.weight_bytes;
    out.control = others * (pairs * kMapBytes + kCountBytes);
  } else {
    out.rows = 2 * pairs * choice.hidden * choice.stream_bytes * others / choice.ep;
    out.weights = pairs * choice.weight_bytes * others / choice.ep;
    out.control = others * choice.num_experts * kCountBytes;
  }
  const std::int64_t partners = choice.etp - 1;
  out.rows += 2 * partners * pairs * choice.hidden * choice.stream_bytes;
  out.weights += partners * pairs * choice.weight_bytes;
  out.control += partners * (choice.num_experts / choice.ep) * kCountBytes;
  return out;
}

}  // namespace sx
