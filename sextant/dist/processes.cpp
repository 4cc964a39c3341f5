// One rank as a process: comes together with the others, watches them, tells of failures.
#include "sextant/dist/processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dist/detail/mpi_wire.h"
#include "sextant/dist/detail/process_world.h"
#include "sextant/dist/detail/socket_mesh.h"
#include "sextant/dist/detail/socket_wire.h"
#include "sextant/dist/signal_dumps.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

constexpr Seconds kLinger{1.0};

std::string one_line(std::string text) {
  if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
  return text;
}

/// A process of this host, watched for its end.
struct Neighbour {
  std::int64_t rank = 0;
  std::int64_t pid = 0;
  detail::Socket handle;  // pidfd
};

}  // namespace

ExitCode exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const FatalError& e) {
    return e.exit_code();
  } catch (const PeerFailure& e) {
    return e.exit_code();
  } catch (const DistError&) {
    return ExitCode::kPeer;
  } catch (const std::bad_alloc&) {
    return ExitCode::kMemory;
  } catch (...) {
    return ExitCode::kContract;
  }
}

struct RankProcess::State {
  ProcessOptions options;
  std::optional<RankStore> store;
  std::unique_ptr<detail::ProcessWorld> world;
  std::shared_ptr<CommSession> session;
  std::optional<Communicator> communicator;

  bool start_differs = false;

  std::vector<Neighbour> neighbours;
  std::thread watcher;
  std::mutex watch_mutex;
  std::condition_variable watch_ends;
  bool watching = false;
  std::mutex store_mutex;  // held while the watcher asks the store
  bool ask_store = true;   // guarded by it

  std::int64_t rank() const { return options.facts.global_rank; }
  std::int64_t size() const { return options.facts.world_size; }

  void connect();
  void find_neighbours();
  void watch();
  void look_at_neighbours();
  bool look_at_store(RankStore& own);
  void stop_watching();
  detail::WorldFault settle(const detail::WorldFault& fault);
};

void RankProcess::State::connect() {
  const env::LauncherFacts& facts = options.facts;
  const detail::ProcessWorldOptions world_options{
      .global_rank = rank(),
      .world_size = size(),
      .transport = options.wire == ProcessWire::kMpi ? "mpi" : "tcp",
      .timeout = options.comm.timeout,
      .flush_denormals = options.flush_denormals};
  if (options.wire == ProcessWire::kTcp) {
    store = open_rank_store(facts, options.init_timeout);
    const detail::SocketWireOptions wire{
        .global_rank = rank(),
        .world_size = size(),
        .timeout = options.init_timeout,
        .address = detail::address_towards(facts.master_address, facts.master_port)};
    world = std::make_unique<detail::ProcessWorld>(
        world_options, [&] { return detail::make_socket_wire(*store, wire); });
    return;
  }
  std::optional<RankStore> server;
  detail::MpiWireOptions wire{.global_rank = rank(), .world_size = size()};
  if (rank() == 0) {
    server = RankStore::tcp_server(0, options.init_timeout);
    wire.root_text = fmt::format("{} {}\n{}", host_name(), server->port(), host_identity());
  }
  std::string told;
  world = std::make_unique<detail::ProcessWorld>(world_options,
                                                 [&] { return detail::make_mpi_wire(wire, told); });
  if (server) {
    store = std::move(server);
    return;
  }
  const std::size_t space = told.find(' ');
  const std::size_t end = told.find('\n');
  const bool near = told.substr(end + 1) == host_identity();
  store = RankStore::tcp_client(near ? "localhost" : told.substr(0, space),
                                std::atoi(told.c_str() + space + 1), options.init_timeout);
}

/// Who else runs on this host: its end is noticed at once, whatever the wire notices.
void RankProcess::State::find_neighbours() {
  store->set(fmt::format("host/{}", rank()), fmt::format("{} {}", getpid(), host_identity()));
  for (std::int64_t other = 0; other < size(); ++other) {
    const auto text = store->get(fmt::format("host/{}", other), options.init_timeout);
    if (!text) {
      throw FatalError(Diagnostic{.exit = ExitCode::kPeer,
                                  .number = 1,
                                  .what = fmt::format("rank {} of {} did not come within {:.3g} s",
                                                      other, size(), options.init_timeout.value),
                                  .where = fmt::format("rank {}, host {}", rank(), host_name()),
                                  .rule = "every rank says where it runs",
                                  .next = "look at what that rank printed"});
    }
    const std::size_t space = text->find(' ');
    if (other == rank() || text->substr(space + 1) != host_identity()) continue;
    const std::int64_t pid = std::strtol(text->c_str(), nullptr, 10);
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
    if (fd >= 0) neighbours.push_back({other, pid, detail::Socket(fd)});
  }
}

void RankProcess::State::look_at_neighbours() {
  std::vector<pollfd> polled;
  for (const Neighbour& one : neighbours) {
    polled.push_back({.fd = one.handle.fd(), .events = POLLIN, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), 0) <= 0) return;
  for (std::size_t i = polled.size(); i-- > 0;) {
    if ((polled[i].revents & POLLIN) == 0) continue;
    const std::int64_t gone = neighbours[i].rank;
    const std::int64_t pid = neighbours[i].pid;
    neighbours.erase(neighbours.begin() + static_cast<std::ptrdiff_t>(i));
    // What it said last comes over the wire first.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    world->lose(gone, fmt::format("its process {} on {} has ended", pid, host_name()));
  }
}

bool RankProcess::State::look_at_store(RankStore& own) {
  const std::lock_guard lock(store_mutex);
  if (!ask_store) return true;
  try {
    if (!own.has(detail::kFirstErrorKey)) return false;
    const auto text = own.get(detail::kFirstErrorKey, Seconds{1.0});
    if (text) world->abort(detail::WorldFault::from_text(*text));
    return true;
  } catch (const IoError&) {
    // The server is with rank 0 or with the agent; when it is gone, the wire tells.
    return true;
  }
}

void RankProcess::State::watch() {
  std::optional<RankStore> own;
  try {
    own = store->clone();
  } catch (const IoError&) {
  }
  bool done = !own;
  int round = 0;
  SignalDumps dumps;
  std::unique_lock lock(watch_mutex);
  while (watching) {
    lock.unlock();
    if (const auto reason = dumps.take()) session->dump(*reason);
    look_at_neighbours();
    if (!done && ++round % 10 == 0) done = look_at_store(*own);
    lock.lock();
    watch_ends.wait_for(lock, std::chrono::milliseconds(50), [&] { return !watching; });
  }
}

void RankProcess::State::stop_watching() {
  {
    const std::lock_guard lock(watch_mutex);
    watching = false;
  }
  watch_ends.notify_all();
  if (watcher.joinable()) watcher.join();
}

/// The fault that was first of all ranks', as far as the store can be asked.
detail::WorldFault RankProcess::State::settle(const detail::WorldFault& fault) {
  try {
    if (store)
      return detail::WorldFault::from_text(
          store->set_once(detail::kFirstErrorKey, fault.to_text()));
  } catch (const IoError&) {
  }
  return fault;
}

RankProcess::RankProcess(const ProcessOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  prepare_rank_thread(
      {.intra_op_threads = options.intra_op_threads, .flush_denormals = options.flush_denormals});
  try {
    state_->connect();
    state_->find_neighbours();
  } catch (const std::exception& e) {
    // Who waits for this rank need not wait longer; who asks rank 0's store must still reach it.
    state_->settle({.origin_rank = state_->rank(),
                    .exit = exit_code_of(std::current_exception()),
                    .message = one_line(e.what())});
    if (state_->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    throw;
  }
  std::vector<std::int64_t> all;
  for (std::int64_t r = 0; r < state_->size(); ++r) all.push_back(r);
  state_->session = std::make_shared<CommSession>(state_->rank(), options.comm);
  state_->communicator.emplace(state_->world->make_transport({.global_ranks = std::move(all),
                                                              .coord = state_->rank(),
                                                              .axis = options.axis,
                                                              .purpose = options.purpose}),
                               state_->session);
  state_->watching = true;
  state_->watcher = std::thread([state = state_.get()] { state->watch(); });
}

RankProcess::~RankProcess() {
  state_->stop_watching();
  state_->communicator.reset();
  state_->world.reset();
}

Communicator& RankProcess::world() { return *state_->communicator; }
RankStore& RankProcess::store() { return *state_->store; }
const env::LauncherFacts& RankProcess::facts() const { return state_->options.facts; }

void RankProcess::check_start(const StartFacts& facts) {
  try {
    check_start_facts(*state_->store, state_->rank(), state_->size(), facts,
                      state_->options.init_timeout, [&] { return state_->world->aborted(); });
  } catch (const ConfigError&) {
    state_->start_differs = true;
    throw;
  }
}

std::string RankProcess::agree(const std::string& name,
                               const std::function<std::string()>& on_rank_0) {
  const std::string key = "agreed/" + name;
  if (state_->rank() == 0) {
    const std::string text = on_rank_0();
    state_->store->set(key, text);
    return text;
  }
  const auto text = state_->store->get(key, state_->options.init_timeout,
                                       [&] { return state_->world->aborted(); });
  if (text) return *text;
  throw FatalError(Diagnostic{.exit = ExitCode::kPeer,
                              .number = 1,
                              .what = fmt::format("rank 0 did not tell \"{}\" within {:.3g} s",
                                                  name, state_->options.init_timeout.value),
                              .where = fmt::format("rank {}", state_->rank()),
                              .rule = "rank 0 decides for all",
                              .next = "look at what rank 0 printed"});
}

void RankProcess::set_flight_folder(const std::filesystem::path& folder) {
  state_->session->set_flight_folder(folder);
}

void RankProcess::finish() {
  {
    // Rank 0 may hold the store and go as soon as all have said that they are done.
    const std::lock_guard lock(state_->store_mutex);
    state_->ask_store = false;
  }
  state_->world->finish();
  state_->stop_watching();
}

void RankProcess::fail(const std::exception_ptr& error) {
  detail::WorldFault own{.fault = DistFault::kAborted,
                         .origin_rank = state_->rank(),
                         .exit = exit_code_of(error),
                         .message = "unknown exception"};
  bool is_dist = false;
  try {
    std::rethrow_exception(error);
  } catch (const DistError& e) {
    is_dist = true;
    own.message = e.what();
  } catch (const std::exception& e) {
    own.message = one_line(e.what());
  } catch (...) {
  }
  // A DistError only reports the world's fault, which may be this rank's own finding.
  const auto known = state_->world->fault();
  const detail::WorldFault first = state_->settle(known && is_dist ? *known : known.value_or(own));
  state_->world->abort(first);
  state_->session->dump(first.message, true);
  state_->world->linger(kLinger);
  state_->stop_watching();
  const bool lost = first.fault == DistFault::kPeerLost;
  // All ranks found the same in the start check: each tells it whole.
  if ((first.origin_rank == state_->rank() && !lost) || state_->start_differs) {
    std::rethrow_exception(error);
  }
  throw PeerFailure(
      first.origin_rank, first.exit,
      lost ? one_line(first.message)
           : fmt::format("rank {} failed first: {}", first.origin_rank, one_line(first.message)));
}

void run_rank_process(const ProcessOptions& options,
                      const std::function<void(RankProcess& process)>& body) {
  RankProcess process(options);
  std::exception_ptr error;
  try {
    body(process);
    process.finish();
    return;
  } catch (...) {
    error = std::current_exception();
  }
  process.fail(error);
}

}  // namespace sx
