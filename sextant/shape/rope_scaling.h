#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

enum class RopeScalingKind { kNone, kLinear, kLlama3 };

const char* to_string(RopeScalingKind value);
const std::vector<std::string>& rope_scaling_names();
/// Errors: kInvalid, the message lists the known names.
Result<RopeScalingKind> parse_rope_scaling(std::string_view text);

/// How rotary frequencies are stretched for contexts longer than the model was first trained with.
/// `linear`: all by `factor` (position interpolation, arXiv 2306.15595). `llama3`: only the slow
/// ones (Llama 3.1 model card; wavelengths beyond original_max_positions / low_freq_factor by
/// `factor`, those below original_max_positions / high_freq_factor not at all, a ramp between).
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_positions = 8192;

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
  /// Broken rules; empty when there are none.
  std::vector<std::string> validate() const;
};

/// The angle per position of each of the head_dim / 2 pairs, radians: theta^(-2i / head_dim),
/// stretched. Source: RoFormer, arXiv 2104.09864, eq. 15.
std::vector<double> rope_frequencies(std::int64_t head_dim, double theta,
                                     const RopeScaling& scaling);

}  // namespace sx
