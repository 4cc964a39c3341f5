#include "sextant/base/progress.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "sextant/base/clock.h"
#include "sextant/base/console.h"
#include "sextant/base/env.h"
#include "sextant/base/units.h"

namespace sx {
namespace {

constexpr std::int64_t kRedrawUs = 100'000;
constexpr std::int64_t kLineUs = 10'000'000;

std::string amount_text(std::uint64_t amount, const std::string& unit) {
  if (unit == "bytes") return format_bytes(Bytes(static_cast<std::int64_t>(amount)));
  return format_count(static_cast<double>(amount)) + " " + unit;
}

std::string rate_text(double per_second, const std::string& unit) {
  if (unit == "bytes") return format_count(per_second / 1e6) + " MB/s";
  return format_count(per_second) + " " + unit + "/s";
}

}  // namespace

std::string progress_line(const ProgressFigures& f) {
  std::string line = f.label;
  const double rate = f.seconds > 0 ? static_cast<double>(f.done) / f.seconds : 0;
  if (f.finished) {
    line +=
        "  done  " + amount_text(f.done, f.unit) + "  in " + format_duration(Seconds(f.seconds));
  } else if (f.total > 0) {
    line += fmt::format("  {:.0f} %  {} of {}",
                        100.0 * static_cast<double>(f.done) / static_cast<double>(f.total),
                        amount_text(f.done, f.unit), amount_text(f.total, f.unit));
  } else {
    line += "  " + amount_text(f.done, f.unit);
  }
  if (rate > 0) line += "  " + rate_text(rate, f.unit);
  if (!f.finished && rate > 0 && f.total > f.done) {
    line += "  eta " + format_duration(Seconds(static_cast<double>(f.total - f.done) / rate));
  }
  if (!f.note.empty()) line += "  " + f.note;
  return line;
}

struct Progress::State {
  std::string label;
  std::string unit;
  std::uint64_t total = 0;
  bool quiet = false;
  bool terminal = false;
  std::int64_t start_us = 0;
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::int64_t> next_us{0};
  std::mutex mutex;  // of note and finished
  std::string note;
  bool finished = false;

  std::string line(bool last) const {
    return progress_line(
        {.label = label,
         .unit = unit,
         .done = done.load(),
         .total = total,
         .seconds = static_cast<double>(monotonic_microseconds() - start_us) * 1e-6,
         .note = note,
         .finished = last});
  }
};

Progress::Progress(std::string label, std::string unit, std::uint64_t total, bool quiet)
    : state_(std::make_unique<State>()) {
  state_->label = std::move(label);
  state_->unit = std::move(unit);
  state_->total = total;
  state_->quiet = quiet;
  state_->terminal = env::stderr_is_terminal();
  state_->start_us = monotonic_microseconds();
  state_->next_us = state_->start_us + (state_->terminal ? kRedrawUs : kLineUs);
}

Progress::~Progress() { finish(); }

void Progress::add(std::uint64_t amount) {
  State& s = *state_;
  s.done.fetch_add(amount, std::memory_order_relaxed);
  if (s.quiet) return;
  const std::int64_t now = monotonic_microseconds();
  std::int64_t next = s.next_us.load(std::memory_order_relaxed);
  const std::int64_t after = now + (s.terminal ? kRedrawUs : kLineUs);
  if (now < next || !s.next_us.compare_exchange_strong(next, after)) return;
  const std::lock_guard lock(s.mutex);
  if (s.finished) return;
  if (s.terminal) {
    console::set_status(s.line(false));
  } else {
    console::write_line(s.line(false));
  }
}

void Progress::note(std::string text) {
  const std::lock_guard lock(state_->mutex);
  state_->note = std::move(text);
}

void Progress::finish() {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (std::exchange(s.finished, true) || s.quiet) return;
  if (s.terminal) console::set_status("");
  console::write_line(s.line(true));
}

}  // namespace sx
