#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sextant/trace/metrics.h"

namespace sx {

/// The console's line for one logged step; a field that is empty is left out, the order never
/// changes.
///
///   step 120 · loss 3.214 · lr 3.0e-04 · gnorm 0.91 · tok/s 12.3k · MFU 41.2 % · mem 61.4/80 GiB ·
///   512 ms
struct StepLine {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<double> eval_loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;
  std::optional<double> tokens_per_s;
  std::optional<double> mfu;  ///< 0..1
  std::optional<std::int64_t> mem_peak_bytes;
  std::optional<std::int64_t> mem_limit_bytes;  ///< of the device; host runs leave it empty
  std::optional<double> step_s;
  std::optional<double> eta_s;
  bool skipped = false;
  bool nonfinite = false;

  std::string to_string() const;
};

/// The same from a row; limit and eta are not in rows.
StepLine step_line_of(const MetricsRow& row);

/// Bars of height 1/8 to 8/8 for the terminal, `width` characters wide, minimum to maximum of the
/// finite values; wider inputs are averaged per character, empty for no finite value.
std::string sparkline(std::span<const double> values, int width);

}  // namespace sx
