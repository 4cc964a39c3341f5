// The life of a run's processes: start, pass on signals and lines, end together.
#include "apps/sextant/rank_supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sextant/base/console.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/env.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGrace{3000};
constexpr std::chrono::milliseconds kKillAfter{1500};
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

struct Child {
  std::int64_t rank = 0;
  pid_t pid = -1;
  int lines = -1;  ///< its standard output and error, but for rank 0
  std::string partial;
  bool running = false;
};

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw IoError(Diagnostic{.exit = ExitCode::kIo,
                           .number = 7,
                           .what = fmt::format("cannot start {}", program),
                           .where = "launch",
                           .rule = std::strerror(error),
                           .next = "fewer --ranks, or look at the limits of processes"});
}

class Supervisor {
 public:
  explicit Supervisor(const RankCommand& command) : command_(command) {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    for (const int signal : kPassedOn) sigaddset(&taken, signal);
    sigprocmask(SIG_BLOCK, &taken, &old_mask_);
    signals_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Supervisor() {
    for (Child& child : children_) {
      if (child.running) kill(child.pid, SIGKILL);
      if (child.lines >= 0) close(child.lines);
    }
    if (signals_ >= 0) close(signals_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Attempt run() {
    for (std::int64_t local = 0; local < command_.num_local; ++local) start(local);
    while (num_running_ > 0) {
      wait_for_events();
      take_signals();
      for (Child& child : children_) pass_lines(child);
      reap();
      end_the_others();
    }
    for (Child& child : children_) pass_lines(child);
    return attempt_;
  }

 private:
  std::map<std::string, std::string> variables(std::int64_t local) const {
    const std::string world = std::to_string(command_.world_size);
    return {{"RANK", std::to_string(command_.first_rank + local)},
            {"WORLD_SIZE", world},
            {"LOCAL_RANK", std::to_string(local)},
            {"LOCAL_WORLD_SIZE", std::to_string(command_.num_local)},
            {"GROUP_RANK", std::to_string(command_.node)},
            {"GROUP_WORLD_SIZE", std::to_string(command_.num_nodes)},
            {"ROLE_NAME", "default"},
            {"ROLE_RANK", std::to_string(command_.first_rank + local)},
            {"ROLE_WORLD_SIZE", world},
            {"MASTER_ADDR", command_.master},
            {"MASTER_PORT", std::to_string(command_.port)},
            {"TORCHELASTIC_RUN_ID", command_.run_id},
            {"TORCHELASTIC_RESTART_COUNT", std::to_string(command_.restart)},
            {"TORCHELASTIC_MAX_RESTARTS", std::to_string(command_.max_restarts)},
            {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  }

  void start(std::int64_t local) {
    Child child;
    child.rank = command_.first_rank + local;
    int ends[2] = {-1, -1};
    if (child.rank != 0 && pipe2(ends, O_CLOEXEC) != 0) cannot_start(command_.words[0], errno);
    std::vector<std::string> words = command_.words;
    std::vector<std::string> entries = env::child_environment(variables(local));
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    const std::vector<char*> argv = pointers(words);
    const std::vector<char*> envp = pointers(entries);
    const pid_t parent = getpid();
    child.pid = fork();
    if (child.pid < 0) cannot_start(command_.words[0], errno);
    if (child.pid == 0) {
      // Only calls that are safe between fork and exec.
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(static_cast<int>(ExitCode::kTerminate));
      if (ends[1] >= 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
      }
      sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
      execve(argv[0], argv.data(), envp.data());
      _exit(static_cast<int>(ExitCode::kUser));
    }
    setpgid(child.pid, child.pid);
    if (ends[1] >= 0) {
      close(ends[1]);
      child.lines = ends[0];
      fcntl(child.lines, F_SETFL, O_NONBLOCK);
    }
    child.running = true;
    ++num_running_;
    children_.push_back(std::move(child));
  }

  void wait_for_events() {
    std::vector<pollfd> polled{{.fd = signals_, .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      if (child.lines >= 0) polled.push_back({.fd = child.lines, .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), failed_at_ ? 50 : 1000);
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      attempt_.interrupted = attempt_.interrupted || signal != SIGUSR2;
      send_all(signal);
    }
  }

  void send_all(int signal) {
    for (const Child& child : children_) {
      if (child.running) kill(child.pid, signal);
    }
  }

  void pass_lines(Child& child) {
    char bytes[4096];
    while (child.lines >= 0) {
      const ssize_t count = read(child.lines, bytes, sizeof bytes);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;  // nothing now
      if (count == 0) {
        if (!child.partial.empty()) show(child.rank, std::exchange(child.partial, {}));
        close(std::exchange(child.lines, -1));
        return;
      }
      child.partial.append(bytes, static_cast<std::size_t>(count));
      for (std::size_t end = 0; (end = child.partial.find('\n')) != std::string::npos;) {
        show(child.rank, child.partial.substr(0, end));
        child.partial.erase(0, end + 1);
      }
    }
  }

  void show(std::int64_t rank, const std::string& line) {
    if (line.empty() || !shown_.insert(line).second) return;
    console::write_line(fmt::format("[rank {}] {}", rank, line));
  }

  void reap() {
    for (Child& child : children_) {
      int status = 0;
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.running = false;
      --num_running_;
      pass_lines(child);
      note_end(child.rank, status);
    }
  }

  void note_end(std::int64_t rank, int status) {
    if (WIFEXITED(status)) {
      const int code = WEXITSTATUS(status);
      const bool stopped = code == static_cast<int>(ExitCode::kRequeue);
      if (code == 0 || failed_at_) return;
      if (attempt_.exit == 0 || !stopped) attempt_.exit = code;
      if (!stopped) failed_at_ = Clock::now();
      return;
    }
    if (failed_at_) return;
    failed_at_ = Clock::now();
    attempt_.exit = static_cast<int>(ExitCode::kPeer);
    const Diagnostic lost{
        .exit = ExitCode::kPeer,
        .number = 4,
        .what = fmt::format("rank {} was ended by signal {} ({})", rank, WTERMSIG(status),
                            strsignal(WTERMSIG(status))),
        .where = "launch",
        .rule = "somebody or the system (out of memory?) killed its process",
        .next = "sextant doctor RUN   (flight records of the others lie in RUN/flight)"};
    attempt_.cause = lost.to_string();
  }

  void end_the_others() {
    if (!failed_at_ || num_running_ == 0) return;
    const auto since = Clock::now() - *failed_at_;
    if (since > kGrace && !asked_) {
      asked_ = true;
      send_all(SIGTERM);
    }
    if (since > kGrace + kKillAfter) send_all(SIGKILL);
  }

  const RankCommand& command_;
  sigset_t old_mask_{};
  int signals_ = -1;
  std::vector<Child> children_;
  std::int64_t num_running_ = 0;
  std::set<std::string> shown_;
  std::optional<Clock::time_point> failed_at_;
  bool asked_ = false;
  Attempt attempt_;
};

}  // namespace

Attempt run_ranks_once(const RankCommand& command) { return Supervisor(command).run(); }

}  // namespace sx
