#include "sextant/nn/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"

namespace sx {
namespace {

at::Tensor to_row(std::span<const std::int32_t> tokens) {
  at::Tensor row = at::empty({1, static_cast<std::int64_t>(tokens.size())}, c10::kLong);
  std::copy(tokens.begin(), tokens.end(), static_cast<std::int64_t*>(row.mutable_data_ptr()));
  return row;
}

}  // namespace

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kLength: return "length";
    case StopReason::kStopToken: return "stop_token";
    case StopReason::kMaxPositions: return "max_positions";
  }
  return "unknown";
}

std::int64_t sample_token(std::span<const double> logits, double temperature, double top_p,
                          double u) {
  SX_CHECK(!logits.empty(), "no logits");
  SX_CHECK(temperature >= 0 && top_p > 0 && top_p <= 1, "temperature {}, top_p {}", temperature,
           top_p);
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return best - logits.begin();

  std::vector<double> weights(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - *best) / temperature);
  }
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0.0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept < top_p * total))
    kept += weights[order[count++]];

  double passed = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    passed += weights[order[i]];
    if (u * kept < passed) return static_cast<std::int64_t>(order[i]);
  }
  return static_cast<std::int64_t>(order[count - 1]);
}

Generated generate(Decoder& model, std::span<const std::int32_t> prompt,
                   const SampleOptions& options,
                   const std::function<void(std::int32_t)>& on_token) {
  const ModelShape& shape = model.shape();
  const auto prompt_length = static_cast<std::int64_t>(prompt.size());
  SX_CHECK(prompt_length >= 1, "the prompt is empty");
  SX_CHECK(prompt_length <= shape.max_positions, "a prompt of {} tokens for {} positions",
           prompt_length, shape.max_positions);
  for (const std::int32_t token : prompt) {
    SX_CHECK(token >= 0 && token < shape.vocab_size, "token {} in a vocabulary of {}", token,
             shape.vocab_size);
  }
  const at::NoGradGuard no_grad;
  const RandomStream random(options.seed, "sample");
  const std::int64_t capacity = std::min(
      shape.max_positions, prompt_length + std::max<std::int64_t>(options.max_new_tokens, 0));
  std::optional<KvCache> cache;
  if (options.use_cache) cache.emplace(shape, 1, capacity, model.compute_dtype());

  Generated result;
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::span<const std::int32_t> next = text;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    const at::Tensor logits_BV =
        model.last_logits({to_row(next), {}, {}}, cache ? &*cache : nullptr);
    const at::Tensor logits = logits_BV.view({-1}).narrow(0, 0, shape.vocab_size).to(c10::kDouble);
    const std::int64_t token = sample_token(
        {logits.const_data_ptr<double>(), static_cast<std::size_t>(shape.vocab_size)},
        options.temperature, options.top_p, random.uniform(static_cast<std::uint64_t>(i)));
    if (options.stop_token == token) {
      result.reason = StopReason::kStopToken;
      return result;
    }
    result.tokens.push_back(static_cast<std::int32_t>(token));
    if (on_token) on_token(result.tokens.back());
    text.push_back(result.tokens.back());
    if (static_cast<std::int64_t>(text.size()) > shape.max_positions) {
      result.reason = StopReason::kMaxPositions;
      return result;
    }
    next = options.use_cache ? std::span(text).last(1) : std::span(text);
  }
  return result;
}

}  // namespace sx
