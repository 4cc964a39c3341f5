#include "sextant/shard/grad_scaler.h"

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), scale_(options.initial_scale), bad_steps_left_(options.hysteresis) {
  SX_CHECK(options.initial_scale >= options.min_scale && options.min_scale > 0 &&
               options.growth_factor >= 1 && options.backoff_factor > 0 &&
               options.backoff_factor <= 1 && options.growth_interval >= 1 &&
               options.hysteresis >= 1,
           "scaler: scale {} at least {}, growth {} every {}, backoff {} after {}",
           options.initial_scale, options.min_scale, options.growth_factor, options.growth_interval,
           options.backoff_factor, options.hysteresis);
}

bool GradScaler::update(bool finite) {
  if (finite) {
    if (++good_steps_ >= options_.growth_interval) {
      scale_ *= options_.growth_factor;
      good_steps_ = 0;
      bad_steps_left_ = options_.hysteresis;
    }
    return true;
  }
  good_steps_ = 0;
  if (--bad_steps_left_ <= 0) {
    scale_ = std::max(options_.min_scale, scale_ * options_.backoff_factor);
    bad_steps_left_ = 0;
  }
  return false;
}

void GradScaler::restore(const State& state) {
  scale_ = state.scale;
  good_steps_ = state.good_steps;
  bad_steps_left_ = state.bad_steps_left;
}

MeanFactors fp16_mean_factors(std::int64_t n) {
  SX_CHECK(n >= 1, "mean over {} ranks", n);
  double factor = 1.0;
  const auto ranks = static_cast<double>(n);
  while (n % static_cast<std::int64_t>(factor) == 0 && ranks / factor > factor) factor *= 2.0;
  return {factor, ranks / factor};
}

}  // namespace sx
