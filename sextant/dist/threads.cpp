#include "sextant/dist/threads.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/detail/thread_world.h"
#include "sextant/dist/signal_dumps.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

using Sessions = std::vector<std::shared_ptr<CommSession>>;

Sessions make_sessions(std::int64_t world_size, const ThreadsOptions& options) {
  Sessions sessions;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    sessions.push_back(
        std::make_shared<CommSession>(rank, CommOptions{.timeout = options.timeout,
                                                        .first_timeout = options.first_timeout,
                                                        .flight_records = options.flight_records,
                                                        .flight_folder = options.flight_folder}));
  }
  return sessions;
}

/// How many rank threads still run.
class RunningRanks {
 public:
  explicit RunningRanks(std::int64_t ranks) : running_(ranks) {}
  void ended() {
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }
  /// True when none runs any more.
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t running_;
};

/// Until all ranks have ended: dumps the flight records when a signal has come.
void watch_signals(RunningRanks& running, const Sessions& sessions) {
  SignalDumps dumps;
  while (!running.wait(std::chrono::milliseconds(100))) {
    const std::optional<std::string> reason = dumps.take();
    if (!reason) continue;
    for (const auto& session : sessions) session->dump(*reason);
  }
}

void run_rank(detail::ThreadWorld& world, std::int64_t global_rank,
              const std::function<void(Communicator&)>& body,
              const std::shared_ptr<CommSession>& session, std::exception_ptr& error) {
  detail::RankState& rank = world.rank(global_rank);
  try {
    prepare_rank_thread({.intra_op_threads = world.options().intra_op_threads,
                         .flush_denormals = world.options().flush_denormals});
    std::vector<std::int64_t> all;
    for (std::int64_t r = 0; r < world.world_size(); ++r) all.push_back(r);
    Communicator communicator(world.make_transport({.global_ranks = std::move(all),
                                                    .coord = global_rank,
                                                    .axis = world.options().axis,
                                                    .purpose = world.options().purpose}),
                              session);
    body(communicator);
    SX_CHECK(rank.dropped().empty(), "a handle went without wait(): {}", rank.dropped());
    rank.drain();
  } catch (const std::exception& e) {
    error = std::current_exception();
    world.abort(DistFault::kAborted, global_rank, e.what());
    session->dump(e.what(), true);
  } catch (...) {
    error = std::current_exception();
    world.abort(DistFault::kAborted, global_rank, "unknown exception");
  }
  rank.cancel_all();
  rank.clear();
  rank.leave();
  world.notify_all();  // peers that wait for this rank need not wait longer
}

}  // namespace

void run_ranks(std::int64_t world_size, const std::function<void(Communicator& world)>& body,
               const ThreadsOptions& options) {
  detail::ThreadWorld world(world_size, options);
  const Sessions sessions = make_sessions(world_size, options);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  RunningRanks running(world_size);
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, i = static_cast<std::size_t>(rank)] {
      run_rank(world, static_cast<std::int64_t>(i), body, sessions[i], errors[i]);
      running.ended();
    });
  }
  if (options.watch_signals) watch_signals(running, sessions);
  for (std::thread& thread : threads) thread.join();
  if (!world.aborted()) return;
  if (const auto& first = errors[static_cast<std::size_t>(world.origin_rank())]) {
    std::rethrow_exception(first);
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  throw world.error_of({.global_ranks = {world.origin_rank()}, .axis = options.axis}, {},
                       Seconds{});
}

}  // namespace sx
