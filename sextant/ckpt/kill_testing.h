#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace sx {

/// The process that saves on and on until it is killed: tells its parent the step of each save that
/// was done, and first, when it is ready, the one before.
class SaveReports {
 public:
  explicit SaveReports(int pipe_end) : pipe_(pipe_end) {}
  void tell(std::int64_t step) const {
    if (write(pipe_, &step, sizeof step) != sizeof step) _exit(4);
  }

 private:
  int pipe_;
};

struct KilledSaves {
  std::int64_t last_reported = 0;
  /// From the child's first word to its second, where `from_second` waited for that.
  std::chrono::microseconds one_save{};
};

/// Runs `save_on_and_on` in a forked child and kills it (-9) `delay` after it was ready or, with
/// `from_second`, after its first save. Throws std::runtime_error when it ended by itself: it never
/// returns, and ends with _exit, as the parent's state is not its to clean up.
inline KilledSaves kill_while_saving(const std::function<void(const SaveReports&)>& save_on_and_on,
                                     bool from_second,
                                     const std::function<std::chrono::microseconds()>& delay) {
  using Clock = std::chrono::steady_clock;
  const auto ended = [](const std::string& how) {
    throw std::runtime_error("the saving process " + how);
  };
  int progress[2];
  if (pipe(progress) != 0) ended("has no pipe");
  const pid_t child = fork();
  if (child < 0) ended("was not forked");
  if (child == 0) {
    save_on_and_on(SaveReports(progress[1]));
    _exit(6);
  }
  close(progress[1]);
  KilledSaves killed;
  const auto next_report = [&] {
    std::int64_t step = 0;
    if (read(progress[0], &step, sizeof step) != sizeof step) return false;
    killed.last_reported = step;
    return true;
  };
  bool alive = next_report();
  if (from_second) {
    const auto begin = Clock::now();
    alive = alive && next_report();
    killed.one_save = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  }
  if (alive) std::this_thread::sleep_for(delay());
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  while (next_report()) {
  }
  close(progress[0]);
  if (!WIFSIGNALED(status)) ended("exited with " + std::to_string(WEXITSTATUS(status)));
  return killed;
}

}  // namespace sx
