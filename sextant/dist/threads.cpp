#include "sextant/dist/threads.h"

#include <exception>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/detail/thread_world.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

void run_rank(detail::ThreadWorld& world, std::int64_t global_rank,
              const std::function<void(Communicator&)>& body, std::exception_ptr& error) {
  detail::RankState& rank = world.rank(global_rank);
  const ThreadsOptions& options = world.options();
  const auto session = std::make_shared<CommSession>(
      global_rank, CommOptions{.timeout = options.timeout,
                               .first_timeout = options.first_timeout,
                               .flight_records = options.flight_records,
                               .flight_folder = options.flight_folder});
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
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back(
        [&, rank] { run_rank(world, rank, body, errors[static_cast<std::size_t>(rank)]); });
  }
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
