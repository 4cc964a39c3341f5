#include "sextant/optim/lr_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sx {

const std::vector<std::string>& lr_decay_names() {
  static const std::vector<std::string> names = {"cosine", "linear", "sqrt", "constant"};
  return names;
}

const char* to_string(LrDecay decay) {
  return lr_decay_names()[static_cast<std::size_t>(decay)].c_str();
}

Result<LrDecay> parse_lr_decay(std::string_view name) {
  const std::vector<std::string>& names = lr_decay_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<LrDecay>(found - names.begin());
  return Error{ErrorKind::kInvalid,
               fmt::format("decay \"{}\" is not known; known: {}", name, fmt::join(names, " ")),
               ""};
}

std::vector<std::string> LrSchedule::validate() const {
  std::vector<std::string> faults;
  const auto require = [&](bool ok, std::string text) {
    if (!ok) faults.push_back(std::move(text));
  };
  require(std::isfinite(lr) && lr >= 0, fmt::format("lr = {} is not a number >= 0", lr));
  require(total_steps >= 1, fmt::format("steps = {}, at least 1 is needed", total_steps));
  require(warmup_steps >= 0 && warmup_steps <= total_steps,
          fmt::format("warmup_steps = {} is not in 0 .. steps = {}", warmup_steps, total_steps));
  require(decay_steps >= 0, fmt::format("decay_steps = {} is negative", decay_steps));
  require(min_ratio >= 0 && min_ratio <= 1,
          fmt::format("min_ratio = {} is not in 0 .. 1", min_ratio));
  require(stable_ratio >= 0 && stable_ratio < 1,
          fmt::format("stable_ratio = {} is not in 0 .. 1", stable_ratio));
  if (faults.empty()) {
    require(warmup_steps + stable_steps() <= total_steps,
            fmt::format("warm-up of {} and stable part of {} steps do not fit into {}",
                        warmup_steps, stable_steps(), total_steps));
  }
  return faults;
}

std::int64_t LrSchedule::stable_steps() const {
  return std::llround(stable_ratio * static_cast<double>(total_steps));
}

double LrSchedule::at(std::int64_t step) const {
  if (step < warmup_steps) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (decay == LrDecay::kConstant) return lr;
  const std::int64_t start = warmup_steps + stable_steps();
  if (step < start) return lr;
  const std::int64_t length =
      std::max<std::int64_t>(decay_steps > 0 ? decay_steps : total_steps - start, 1);
  const double x = std::min(static_cast<double>(step - start) / static_cast<double>(length), 1.0);
  double g = 1.0 - x;
  if (decay == LrDecay::kCosine) g = 0.5 * (1.0 + std::cos(std::numbers::pi * x));
  if (decay == LrDecay::kSqrt) g = 1.0 - std::sqrt(x);
  return lr * (min_ratio + (1.0 - min_ratio) * g);
}

}  // namespace sx
