#include "sextant/base/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace sx::signals {
namespace {

constexpr int kKilled = -1;

/// Exit code of a child process that runs `body`, or kKilled when a signal ended it.
int exit_code_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    install();
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

TEST(SignalsTest, OneSignalAsksForAStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    EXPECT_EQ(exit_code_of([signal] {
                if (stop_requested()) return 1;
                raise(signal);
                return stop_requested() && stop_signal() == signal ? 75 : 2;
              }),
              75);
  }
}

TEST(SignalsTest, SecondInterruptEndsAtOnce) {
  EXPECT_EQ(exit_code_of([] {
              raise(SIGINT);
              raise(SIGINT);
              return 1;
            }),
            130);
}

TEST(SignalsTest, ExitAtOnceTakesTheFirstSignal) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), {SIGTERM, 143}, {SIGUSR1, 143}}) {
    EXPECT_EQ(exit_code_of([signal = signal] {
                exit_at_once();
                raise(signal);
                return 1;
              }),
              code);
  }
}

TEST(SignalsTest, RepeatedTerminationRequestsDoNotKill) {
  EXPECT_EQ(exit_code_of([] {
              raise(SIGUSR1);
              raise(SIGTERM);
              raise(SIGTERM);
              raise(SIGINT);
              return stop_signal() == SIGUSR1 ? 0 : 1;
            }),
            0);
}

TEST(SignalsTest, DumpRequestsAreTakenOnce) {
  EXPECT_EQ(exit_code_of([] {
              raise(SIGUSR2);
              if (stop_requested() || !take_dump_request()) return 1;
              return take_dump_request() ? 2 : 0;
            }),
            0);
}

TEST(SignalsTest, HangupAndClosedPipesAreIgnored) {
  EXPECT_EQ(exit_code_of([] {
              raise(SIGHUP);
              int ends[2];
              if (pipe(ends) != 0) return 1;
              close(ends[0]);
              return write(ends[1], "x", 1) == -1 && !stop_requested() ? 0 : 2;
            }),
            0);
}

TEST(SignalsTest, DeadlineEndsASaveThatHangs) {
  EXPECT_EQ(exit_code_of([] {
              set_stop_deadline(Seconds(0.5));
              raise(SIGTERM);
              sleep(10);
              sleep(10);
              return 1;
            }),
            143);
}

TEST(SignalsTest, RequestAndClear) {
  EXPECT_FALSE(stop_requested());
  request_stop();
  EXPECT_TRUE(stop_requested());
  clear();
  EXPECT_FALSE(stop_requested());
}

}  // namespace
}  // namespace sx::signals
