#include "sextant/trace/step_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sx {
namespace {

/// Three significant digits, no zeros at the end: 0.91, 41.2, 512.
std::string short_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  if (std::fabs(value) < 1e-3 || std::fabs(value) >= 1e6) return fmt::format("{:.2e}", value);
  // The decimals are those of the rounded number: 9.996 is 10, not 10.00.
  const double rounded = std::stod(fmt::format("{:.2e}", value));
  const int power = static_cast<int>(std::floor(std::log10(std::fabs(rounded))));
  std::string text = fmt::format("{:.{}f}", rounded, std::max(0, 2 - power));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string short_rate(double value) {
  for (const auto& [unit, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit * 0.9995) return short_number(value / unit) + name;
  }
  return short_number(value);
}

std::string loss_text(double loss) {
  if (!std::isfinite(loss) || std::fabs(loss) >= 10) return short_number(loss);
  return fmt::format("{:.3f}", loss);
}

std::string gib_text(std::int64_t bytes) {
  return short_number(static_cast<double>(bytes) / static_cast<double>(1 << 30));
}

std::string memory_text(std::int64_t peak, const std::optional<std::int64_t>& limit) {
  if (limit) return gib_text(peak) + "/" + gib_text(*limit) + " GiB";
  if (peak < (1 << 30)) return short_number(static_cast<double>(peak) / (1 << 20)) + " MiB";
  return gib_text(peak) + " GiB";
}

std::string step_time_text(double seconds) {
  if (seconds < 0.9995) return short_number(seconds * 1e3) + " ms";
  return short_number(seconds) + " s";
}

std::string eta_text(double seconds) {
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}h{:02}m", total / 3600, total % 3600 / 60);
}

}  // namespace

std::string StepLine::to_string() const {
  std::string line = fmt::format("step {}", step);
  const auto field = [&](const std::string& text) { line += " · " + text; };
  if (loss) field("loss " + loss_text(*loss));
  if (eval_loss) field("eval " + loss_text(*eval_loss));
  if (lr) field(fmt::format("lr {:.1e}", *lr));
  if (grad_norm) field("gnorm " + short_number(*grad_norm));
  if (tokens_per_s) field("tok/s " + short_rate(*tokens_per_s));
  if (mfu) field("MFU " + short_number(*mfu * 100) + " %");
  if (mem_peak_bytes) field("mem " + memory_text(*mem_peak_bytes, mem_limit_bytes));
  if (step_s) field(step_time_text(*step_s));
  if (eta_s) field("eta " + eta_text(*eta_s));
  if (skipped) field("skip");
  if (nonfinite) field("nonfinite");
  return line;
}

StepLine step_line_of(const MetricsRow& row) {
  StepLine line;
  line.step = row.step();
  line.loss = row.get("loss");
  line.eval_loss = row.get("eval_loss");
  line.lr = row.get("lr");
  line.grad_norm = row.get("grad_norm");
  line.tokens_per_s = row.get("tokens_per_s");
  line.mfu = row.get("mfu");
  if (const auto bytes = row.get("mem_peak_bytes")) {
    line.mem_peak_bytes = static_cast<std::int64_t>(*bytes);
  }
  line.step_s = row.get("step_s");
  line.nonfinite = line.loss && !std::isfinite(*line.loss);
  return line;
}

std::string sparkline(std::span<const double> values, int width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double v) { return std::isfinite(v); });
  if (finite.empty() || width <= 0) return {};
  const std::size_t cells = std::min(finite.size(), static_cast<std::size_t>(width));
  std::vector<double> means(cells);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t begin = cell * finite.size() / cells;
    const std::size_t end = (cell + 1) * finite.size() / cells;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += finite[i];
    means[cell] = sum / static_cast<double>(end - begin);
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string line;
  for (const double mean : means) {
    const double share = *high > *low ? (mean - *low) / (*high - *low) : 0.5;
    line += kBars[std::min(7, static_cast<int>(share * 8))];
  }
  return line;
}

}  // namespace sx
