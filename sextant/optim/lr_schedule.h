#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

enum class LrDecay { kCosine, kLinear, kSqrt, kConstant };
const char* to_string(LrDecay decay);
const std::vector<std::string>& lr_decay_names();
/// Errors: kInvalid, lists the names.
Result<LrDecay> parse_lr_decay(std::string_view name);

/// Keys lr_scheduler.* of a run, with "auto" resolved.
struct LrSchedule {
  double lr = 3e-4;  ///< peak
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  LrDecay decay = LrDecay::kCosine;
  std::int64_t decay_steps = 0;  ///< 0: all steps behind warm-up and the stable part
  double min_ratio = 0.1;        ///< last rate over peak
  double stable_ratio =
      0.0;  ///< > 0: warmup-stable-decay (arXiv 2404.06395), share of total_steps at the peak

  /// Rules a schedule keeps, as text; empty when it does.
  std::vector<std::string> validate() const;

  /// Steps at the peak behind the warm-up: stable_ratio * total_steps, rounded.
  std::int64_t stable_steps() const;

  /// Rate of step `step` (0-based), a pure function.
  ///
  /// Warm-up: lr * (step + 1) / warmup_steps. Then with x in [0, 1] the part of the decay that has
  /// passed, x = (step - start) / decay_steps, factor f = min + (1 - min) * g(x): cosine g = (1 +
  /// cos(pi x)) / 2, linear g = 1 - x, sqrt g = 1 - sqrt(x) (arXiv 2405.18392), constant g = 1.
  /// Behind the decay f = min_ratio.
  double at(std::int64_t step) const;
};

}  // namespace sx
