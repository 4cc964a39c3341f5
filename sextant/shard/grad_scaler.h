#pragma once

#include <cstdint>

namespace sx {

/// Scale of the loss in fp16 runs, so that small gradients do not vanish: grows by
/// `growth_factor` after `growth_interval` good steps in a row, shrinks by `backoff_factor` after
/// `hysteresis` bad steps. Whether a step was bad is decided by all ranks together (the flag of
/// `reduce_step_sums`), so every rank's scaler holds the same numbers.
/// Source: Micikevicius et al., "Mixed precision training", arXiv 1710.03740; hysteresis as in
/// Megatron-LM's DynamicGradScaler.
struct GradScalerOptions {
  double initial_scale = 65536.0;
  double min_scale = 1.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  std::int64_t hysteresis = 1;
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  double scale() const { return scale_; }
  bool at_minimum() const { return scale_ <= options_.min_scale; }
  /// After a step: `finite` as all ranks agreed. Returns whether the step may be applied.
  bool update(bool finite);

  struct State {
    double scale = 0;
    std::int64_t good_steps = 0;
    std::int64_t bad_steps_left = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  State state() const { return {scale_, good_steps_, bad_steps_left_}; }
  void restore(const State& state);

 private:
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;
  std::int64_t bad_steps_left_;
};

/// Factors (before, after) the sum over n ranks for the mean of fp16 gradients: `before` is the
/// largest power of two f that divides n or keeps n / f above f, so that neither the terms vanish
/// nor the sum overflows.
struct MeanFactors {
  double before = 1.0;
  double after = 1.0;
};
MeanFactors fp16_mean_factors(std::int64_t n);

}  // namespace sx
