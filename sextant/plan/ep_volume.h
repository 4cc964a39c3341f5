#pragma once

#include <cstdint>

namespace sx {

/// A layer of experts over ep x etp, as far as what is sent depends on it.
struct EpChoice {
  std::int64_t ep = 1, etp = 1;
  bool all_gather = false;  ///< every token to everybody, instead of rows to their experts
  std::int64_t tokens = 1;  ///< own ones of a microbatch, as many on every rank
  std::int64_t topk = 1;
  std::int64_t hidden = 1;
  std::int64_t num_experts = 1;
  std::int64_t stream_bytes = 2;  ///< of a number of the residual stream
  std::int64_t weight_bytes = 4;  ///< of a router's weight
};

/// Bytes that a rank sends for one layer and microbatch when every expert is chosen equally often;
/// otherwise this is the mean over ranks. T tokens, k choices, h hidden, f(n) = (n - 1) / n; rows
/// of both ways, dispatch and combine, together:
///   rows to their experts   2 T k h f(ep); weights T k f(ep)
///   tokens to everybody     2 (ep - 1) T h; weights (ep - 1) T k
///   etp                     2 f(etp) etp T k h; weights (etp - 1) T k
/// Backward is the same, without what only the forward pass asks: counts, and the map of the
/// choices.
struct EpTraffic {
  std::int64_t rows = 0;     ///< forward, and again backward
  std::int64_t weights = 0;  ///< forward, and again backward
  std::int64_t control = 0;  ///< forward only
  std::int64_t forward() const { return rows + weights + control; }
  std::int64_t backward() const { return rows + weights; }
};
EpTraffic ep_layer_traffic(const EpChoice& choice);

}  // namespace sx
