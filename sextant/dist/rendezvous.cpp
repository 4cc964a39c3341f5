// The store is LibTorch's (c10d); this is the only file that sees it.
#include "sextant/dist/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/fs.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes8 = std::vector<std::uint8_t>;

constexpr int kPortsTried = 16;

std::chrono::milliseconds milliseconds(Seconds s) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(s.value * 1000) + 1);
}

Bytes8 to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_text(const Bytes8& bytes) { return {bytes.begin(), bytes.end()}; }

/// First line of a c10 error: the rest is a trace for its developers.
std::string first_line(const char* what) {
  std::string text = what;
  if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
  return text;
}

IoError unreachable(const std::string& where, const char* cause) {
  return IoError(Diagnostic{.exit = ExitCode::kIo,
                            .number = 9,
                            .what = "the store of the run does not answer",
                            .where = where,
                            .rule = first_line(cause),
                            .next = "are all ranks of the run still there?"});
}

}  // namespace

struct RankStore::State {
  c10::intrusive_ptr<c10d::Store> store;
  std::string where;
  int port = 0;

  template <class Call>
  auto guarded(Call&& call) const {
    try {
      return call();
    } catch (const std::exception& e) {
      throw unreachable(where, e.what());
    }
  }
};

namespace {

RankStore make(c10::intrusive_ptr<c10d::Store> store, std::string where, int port = 0) {
  auto state = std::make_shared<RankStore::State>();
  state->store = std::move(store);
  state->where = std::move(where);
  state->port = port;
  return RankStore(std::move(state));
}

/// What goes wrong with a store is told in four lines; c10d would add a page of frames to each.
void silence_c10d() {
  static const int level = FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, 3);
  static_cast<void>(level);
}

RankStore open_tcp(const std::string& host, int port, bool server, Seconds timeout) {
  silence_c10d();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout);
  options.multiTenant = true;
  const std::string where = fmt::format("tcp://{}:{}", host, port);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    const int bound = store->getPort();
    return make(std::move(store), fmt::format("tcp://{}:{}", host, bound), bound);
  } catch (const std::exception& e) {
    throw unreachable(where, e.what());
  }
}

}  // namespace

RankStore RankStore::in_process() {
  return make(c10::make_intrusive<c10d::HashStore>(), "this process");
}

RankStore RankStore::file(const std::string& path, std::int64_t world_size) {
  try {
    return make(c10::make_intrusive<c10d::FileStore>(path, static_cast<int>(world_size)), path);
  } catch (const std::exception& e) {
    throw unreachable(path, e.what());
  }
}

RankStore RankStore::tcp_server(int port, Seconds timeout) {
  return open_tcp("localhost", port, true, timeout);
}

RankStore RankStore::tcp_client(const std::string& host, int port, Seconds timeout) {
  return open_tcp(host, port, false, timeout);
}

RankStore RankStore::with_prefix(const std::string& prefix) const {
  return make(c10::make_intrusive<c10d::PrefixStore>(prefix, state_->store), state_->where,
              state_->port);
}

RankStore RankStore::clone() const {
  return state_->guarded([&] { return make(state_->store->clone(), state_->where, state_->port); });
}

void RankStore::set(const std::string& key, const std::string& value) {
  state_->guarded([&] { state_->store->set(key, to_bytes(value)); });
}

std::optional<std::string> RankStore::get(const std::string& key, Seconds timeout,
                                          const std::function<bool()>& give_up) {
  // Asked again and again instead of waited for: other threads may use the connection meanwhile.
  const auto end = Clock::now() + milliseconds(timeout);
  for (std::int64_t pause_ms = 1;; pause_ms = std::min<std::int64_t>(pause_ms * 2, 50)) {
    if (has(key)) {
      return state_->guarded([&] { return to_text(state_->store->get(key)); });
    }
    if (Clock::now() >= end || (give_up && give_up())) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  }
}

bool RankStore::has(const std::string& key) {
  return state_->guarded([&] { return state_->store->check({key}); });
}

std::string RankStore::set_once(const std::string& key, const std::string& value) {
  return state_->guarded(
      [&] { return to_text(state_->store->compareSet(key, Bytes8{}, to_bytes(value))); });
}

std::int64_t RankStore::add(const std::string& key, std::int64_t value) {
  return state_->guarded([&] { return state_->store->add(key, value); });
}

int RankStore::port() const { return state_->port; }

namespace {

constexpr const char* kHello = "hello";

std::string run_prefix(const env::LauncherFacts& facts) {
  return fmt::format("sx/{}/{}", facts.run_id.empty() ? "run" : facts.run_id, facts.restart_count);
}

[[noreturn]] void nobody_there(const env::LauncherFacts& facts, Seconds timeout,
                               const std::string& cause) {
  throw FatalError(Diagnostic{
      .exit = ExitCode::kPeer,
      .number = 1,
      .what = fmt::format("rank {} found no store of the run within {:.3g} s", facts.global_rank,
                          timeout.value),
      .where = fmt::format("tcp://{}:{}", facts.master_address, facts.master_port),
      .rule = cause,
      .next = "does rank 0 run, and may this host connect to it? comm.init_timeout sets the time"});
}

RankStore serve_on_first_free(const env::LauncherFacts& facts, Seconds timeout) {
  for (int i = 0;; ++i) {
    try {
      RankStore store = RankStore::tcp_server(facts.master_port + i, timeout);
      store.with_prefix(run_prefix(facts)).set(kHello, "0");
      return store;
    } catch (const IoError&) {
      if (i + 1 == kPortsTried) throw;
    }
  }
}

/// Another job's store may lie on one of the ports: the right one greets under the run's own
/// prefix.
RankStore find_on_ports(const env::LauncherFacts& facts, Seconds timeout) {
  const auto end = Clock::now() + milliseconds(timeout);
  std::string last = "nothing listens there";
  while (Clock::now() < end) {
    for (int i = 0; i < kPortsTried; ++i) {
      try {
        RankStore store =
            RankStore::tcp_client(facts.master_address, facts.master_port + i, Seconds{1.0});
        if (store.with_prefix(run_prefix(facts)).has(kHello)) {
          return RankStore::tcp_client(facts.master_address, facts.master_port + i, timeout);
        }
      } catch (const IoError& e) {
        last = e.faults().front().rule;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  nobody_there(facts, timeout, last);
}

std::string link_of(const char* path) {
  std::error_code code;
  const fs::path target = fs::read_symlink(path, code);
  return code ? "" : target.string();
}

}  // namespace

RankStore open_rank_store(const env::LauncherFacts& facts, Seconds timeout) {
  SX_CHECK(!facts.master_address.empty(), "launcher {} gives no address for a store",
           env::to_string(facts.launcher));
  const bool server = facts.global_rank == 0 && !facts.agent_store;
  const std::string prefix = run_prefix(facts);
  if (facts.launcher == env::Launcher::kSlurm) {
    return (server ? serve_on_first_free(facts, timeout) : find_on_ports(facts, timeout))
        .with_prefix(prefix);
  }
  if (server) return RankStore::tcp_server(facts.master_port, timeout).with_prefix(prefix);
  try {
    return RankStore::tcp_client(facts.master_address, facts.master_port, timeout)
        .with_prefix(prefix);
  } catch (const IoError& e) {
    nobody_there(facts, timeout, e.faults().front().rule);
  }
}

std::string host_identity() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  std::string id = boot.ok() ? *boot : host_name();
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return fmt::format("{} {} {}", id, link_of("/proc/self/ns/ipc"), link_of("/proc/self/ns/pid"));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace sx
