#include "sextant/shape/rope_scaling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

namespace sx {
namespace {

double stretch_llama3(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double turns = static_cast<double>(scaling.original_max_positions) / wavelength;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

}  // namespace

const std::vector<std::string>& rope_scaling_names() {
  static const std::vector<std::string> names = {"none", "linear", "llama3"};
  return names;
}

const char* to_string(RopeScalingKind value) {
  return rope_scaling_names()[static_cast<std::size_t>(value)].c_str();
}

Result<RopeScalingKind> parse_rope_scaling(std::string_view text) {
  const auto& names = rope_scaling_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<RopeScalingKind>(i);
  }
  return Error{
      ErrorKind::kInvalid,
      fmt::format("rope scaling \"{}\" is not known; known: {}", text, fmt::join(names, " ")), ""};
}

std::vector<std::string> RopeScaling::validate() const {
  std::vector<std::string> rules;
  if (kind == RopeScalingKind::kNone) return rules;
  if (!(factor >= 1) || !std::isfinite(factor)) rules.emplace_back("factor is at least 1");
  if (kind != RopeScalingKind::kLlama3) return rules;
  if (!(low_freq_factor > 0) || !(high_freq_factor > low_freq_factor) ||
      !std::isfinite(high_freq_factor)) {
    rules.emplace_back("0 < low_freq_factor < high_freq_factor");
  }
  if (original_max_positions < 1) rules.emplace_back("original_max_positions is at least 1");
  return rules;
}

std::vector<double> rope_frequencies(std::int64_t head_dim, double theta,
                                     const RopeScaling& scaling) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    switch (scaling.kind) {
      case RopeScalingKind::kNone: frequencies.push_back(plain); break;
      case RopeScalingKind::kLinear: frequencies.push_back(plain / scaling.factor); break;
      case RopeScalingKind::kLlama3: frequencies.push_back(stretch_llama3(plain, scaling)); break;
    }
  }
  return frequencies;
}

}  // namespace sx
