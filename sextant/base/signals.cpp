#include "sextant/base/signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>

#include "sextant/base/check.h"
#include "sextant/base/exit_code.h"

namespace sx::signals {
namespace {

/// Handlers can reach static storage only; constant-initialised and lock-free, so they may touch it
/// at any time.
struct Flags {
  std::atomic<int> stop_signal{0};
  std::atomic<int> num_interrupts{0};
  std::atomic<unsigned> deadline_s{0};
  std::atomic<bool> dump{false};
  std::atomic<bool> exit_at_once{false};
};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

Flags& flags() {
  static constinit Flags instance;
  return instance;
}

void on_stop(int signal) {
  Flags& f = flags();
  if (f.exit_at_once) {
    _exit(static_cast<int>(signal == SIGINT ? ExitCode::kInterrupt : ExitCode::kTerminate));
  }
  if (signal == SIGINT && f.num_interrupts.fetch_add(1) > 0) {
    _exit(static_cast<int>(ExitCode::kInterrupt));
  }
  int none = 0;
  if (f.stop_signal.compare_exchange_strong(none, signal) && f.deadline_s > 0) alarm(f.deadline_s);
}

void on_dump(int) { flags().dump = true; }

void on_deadline(int) { _exit(static_cast<int>(ExitCode::kTerminate)); }

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // Libraries below do not expect EINTR; who waits for long looks at stop_requested().
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  SX_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction({}) failed", signal);
}

}  // namespace

void install() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) set_handler(signal, on_stop);
  set_handler(SIGUSR2, on_dump);
  set_handler(SIGALRM, on_deadline);
  for (const int signal : {SIGHUP, SIGPIPE}) set_handler(signal, SIG_IGN);
}

void exit_at_once() { flags().exit_at_once = true; }

bool stop_requested() { return stop_signal() != 0; }
int stop_signal() { return flags().stop_signal.load(std::memory_order_relaxed); }

void set_stop_deadline(Seconds deadline) {
  constexpr double kLongest = 1e9;  // 30 years; alarm takes an unsigned
  flags().deadline_s = static_cast<unsigned>(std::ceil(std::min(deadline.value, kLongest)));
}

void end_stop_deadline() { alarm(0); }

bool take_dump_request() { return flags().dump.exchange(false); }

void request_stop() { on_stop(SIGUSR1); }

void clear() {
  alarm(0);
  flags().stop_signal = 0;
  flags().num_interrupts = 0;
  flags().dump = false;
}

}  // namespace sx::signals
