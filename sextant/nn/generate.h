#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sextant/nn/decoder.h"

namespace sx {

struct SampleOptions {
  std::int64_t max_new_tokens = 64;
  double temperature = 1.0;  ///< 0 = greedy: the most likely token, the lowest id among equals
  double top_p =
      1.0;  ///< keep the smallest set of most likely tokens with at least this probability
  std::uint64_t seed = 1;
  std::optional<std::int64_t> stop_token;  ///< ends the text; not part of the result
  bool use_cache = true;  ///< false: the whole text is computed anew for each token (for tests)
};

enum class StopReason { kLength, kStopToken, kMaxPositions };
const char* to_string(StopReason reason);

struct Generated {
  std::vector<std::int32_t> tokens;  ///< new tokens only
  StopReason reason = StopReason::kLength;
};

/// Continues `prompt` token by token. Token i uses number i of random stream "sample" only, so a
/// text is a pure function of (weights, prompt, options). `on_token` (may be empty) sees each new
/// token at once. Errors: ContractError for an empty prompt, a token outside the vocabulary, or a
/// prompt longer than max_positions.
Generated generate(Decoder& model, std::span<const std::int32_t> prompt,
                   const SampleOptions& options,
                   const std::function<void(std::int32_t)>& on_token = {});

/// Chooses from `logits` (vocabulary without padding) with uniform number u in (0, 1). Pure; for
/// tests.
std::int64_t sample_token(std::span<const double> logits, double temperature, double top_p,
                          double u);

}  // namespace sx
