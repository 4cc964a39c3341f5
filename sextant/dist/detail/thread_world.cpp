#include "sextant/dist/detail/thread_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "sextant/base/check.h"
#include "sextant/base/thread_pool.h"
#include "sextant/dist/detail/progress_pool.h"
#include "sextant/dist/detail/thread_group.h"

namespace sx::detail {

using Clock = std::chrono::steady_clock;

void ThreadOperation::wait() {
  if (!done_) rank_.wait_for(*this);
}

bool ThreadOperation::poll() noexcept {
  if (done_ || rank_.world().aborted()) return true;
  try {
    rank_.drive();
  } catch (...) {
    return true;  // wait() throws it: the world is aborted now
  }
  return done_;
}

void ThreadOperation::drop() noexcept {
  if (!done_ && std::uncaught_exceptions() > 0) cancel();
  rank_.note_drop(*this);
}

void RankState::before_start(const GroupInfo& group, const Descriptor& descriptor) {
  SX_CHECK(dropped_.empty(), "a handle went without wait(): {}", dropped_);
  if (world_.aborted()) throw world_.error_of(group, descriptor, Seconds{});
}

void RankState::add(std::shared_ptr<ThreadOperation> operation) {
  pending_.push_back(std::move(operation));
}

void RankState::drive(ThreadOperation* target) {
  bool any_done = false;
  const auto advance = [&](ThreadOperation& operation) {
    operation.done_ = operation.advance(target);
    any_done = any_done || operation.done_;
  };
  if (target != nullptr && !target->done_) advance(*target);
  if (target == nullptr || !target->done_) {
    for (const auto& operation : pending_) {
      if (!operation->done_ && operation.get() != target) advance(*operation);
    }
    if (target != nullptr && !target->done_) advance(*target);
  }
  if (any_done) std::erase_if(pending_, [](const auto& operation) { return operation->done(); });
}

void RankState::wait_for(ThreadOperation& operation) {
  operation.before_wait();
  const auto start = Clock::now();
  const auto limit = std::chrono::duration<double>(operation.timeout().value);
  int spins = 0;
  for (;;) {
    const std::uint32_t seen = parker_.epoch();
    drive(&operation);
    if (operation.done()) return;  // also when the world has failed since
    if (world_.aborted()) {
      const std::chrono::duration<double> waited = Clock::now() - start;
      cancel_all();
      throw world_.error_of(operation.group(), operation.descriptor(), Seconds{waited.count()});
    }
    if (spins < world_.spin_limit()) {
      ++spins;
      spin_pause();
      continue;
    }
    spins = 0;
    const std::chrono::duration<double> waited = Clock::now() - start;
    check_peers_are_there(operation, Seconds{waited.count()});
    if (operation.done()) return;
    auto left = limit - waited;
    if (left.count() <= 0) {
      const std::vector<std::int64_t> missing = operation.missing_ranks();
      if (!missing.empty()) {
        fail(operation, DistFault::kTimeout,
             fmt::format("rank {} waited {:.3g} s for rank {} to join{}", global_rank_,
                         waited.count(), fmt::join(missing, ", "),
                         world_.describe_cause(missing, global_rank_)),
             Seconds{waited.count()});
      }
      // The last one came just now. What is left is work, which gets the same time once more.
      left += limit;
      if (left.count() <= 0) {
        fail(operation, DistFault::kTimeout,
             fmt::format("rank {} waited {:.3g} s for a call that all ranks have joined",
                         global_rank_, waited.count()),
             Seconds{waited.count()});
      }
    }
    sleep(operation, seen, std::chrono::duration_cast<std::chrono::nanoseconds>(left),
          Seconds{waited.count()});
  }
}

/// Sleeps until something changes; a rank that is the last to fall asleep finds out whether
/// anything can change.
void RankState::sleep(ThreadOperation& operation, std::uint32_t seen,
                      std::chrono::nanoseconds limit, Seconds waited) {
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_for_ = operation.shared_descriptor();
    waiting_in_ = &operation.group();
  }
  asleep_at_.store(std::uint64_t{seen} + 1, std::memory_order_seq_cst);
  const bool all =
      world_.num_asleep().fetch_add(1, std::memory_order_seq_cst) + 1 == world_.world_size();
  const bool stuck = all && world_.is_stuck();
  if (!stuck) parker_.park(seen, limit);
  std::string waits;
  if (stuck) waits = world_.describe_waits();
  world_.num_asleep().fetch_sub(1, std::memory_order_seq_cst);
  asleep_at_.store(0, std::memory_order_seq_cst);
  if (stuck) {
    fail(operation, DistFault::kDeadlock, "no rank can go on: " + waits, waited);
  }
}

bool RankState::is_stuck() const {
  const std::uint64_t at = asleep_at_.load(std::memory_order_seq_cst);
  return at != 0 && at == std::uint64_t{parker_.epoch()} + 1;
}

std::string RankState::waits_for() const {
  const std::lock_guard lock(waiting_mutex_);
  if (!waiting_for_) return fmt::format("rank {} runs", global_rank_);
  return fmt::format("rank {} waits in {} on {} ({})", global_rank_, waiting_for_->to_string(),
                     waiting_in_->axis.to_string(), to_string(waiting_in_->purpose));
}

void RankState::cancel_all() noexcept {
  for (const auto& operation : pending_) operation->cancel();
}

void RankState::leave() {
  left_.store(true, std::memory_order_seq_cst);
  world_.num_asleep().fetch_add(1, std::memory_order_seq_cst);
}

/// A rank that has ended its work can no longer join a call it has not begun.
void RankState::check_peers_are_there(ThreadOperation& operation, Seconds waited) {
  const auto gone = [&] {
    for (const std::int64_t rank : operation.missing_ranks()) {
      if (world_.rank(rank).has_left()) return rank;
    }
    return std::int64_t{-1};
  };
  if (gone() < 0) return;
  drive();  // it may have joined just before it left
  if (operation.done()) return;
  if (const std::int64_t rank = gone(); rank >= 0) {
    fail(operation, DistFault::kPeerLeft,
         fmt::format("rank {} ended its work without joining rank {}", rank, global_rank_), waited);
  }
}

void RankState::drain() {
  while (!pending_.empty()) {
    const std::shared_ptr<ThreadOperation> first = pending_.front();
    wait_for(*first);
  }
}

void RankState::note_drop(const ThreadOperation& operation) noexcept {
#ifndef NDEBUG
  if (std::uncaught_exceptions() > 0 || world_.aborted()) return;
  dropped_ = operation.descriptor().to_string_noexcept();
#else
  (void)operation;
#endif
}

void RankState::fail(const ThreadOperation& operation, DistFault fault, const std::string& message,
                     Seconds waited) {
  cancel_all();
  // A mismatch shows both calls in its message already.
  const std::string call = fault == DistFault::kMismatch ? std::string("calls differ")
                                                         : operation.descriptor().to_string();
  world_.abort(fault, global_rank_,
               fmt::format("{} on {} ({}): {}", call, operation.group().axis.to_string(),
                           to_string(operation.group().purpose), message));
  throw world_.error_of(operation.group(), operation.descriptor(), waited);
}

ThreadWorld::ThreadWorld(std::int64_t world_size, const ThreadsOptions& options)
    : options_(options) {
  SX_CHECK(world_size >= 1, "a world of {} ranks", world_size);
  // Spinning pays only where every rank has a core of its own.
  spin_limit_ = world_size <= static_cast<std::int64_t>(usable_cores()) ? 2000 : 0;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    ranks_.push_back(std::make_unique<RankState>(*this, rank));
  }
  num_helpers_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(usable_cores()) - 1);
  if (options_.progress_threads > 0 && world_size > 1) {
    progress_pool_ =
        std::make_unique<ProgressPool>(*this, options_.progress_threads, options_.flush_denormals);
  }
}

ThreadWorld::~ThreadWorld() = default;

void ThreadWorld::abort(DistFault fault, std::int64_t origin_rank, const std::string& message) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    fault_ = fault;
    origin_rank_ = origin_rank;
    reason_ = message;
    aborted_.store(true, std::memory_order_release);
  }
  notify_all();
}

DistError ThreadWorld::error_of(const GroupInfo& group, const Descriptor& descriptor,
                                Seconds waited) const {
  const std::string message =
      fault_ == DistFault::kAborted ? fmt::format("rank {}: {}", origin_rank_, reason_) : reason_;
  return DistError(fault_, group.axis, descriptor.op, descriptor.sequence, descriptor.bytes(),
                   waited, origin_rank_, message);
}

void ThreadWorld::notify(const std::vector<std::int64_t>& global_ranks) {
  for (const std::int64_t r : global_ranks) rank(r).parker().notify();
}

void ThreadWorld::notify_helpers(const std::vector<std::int64_t>& global_ranks, std::int64_t own) {
  std::int64_t woken = 0;
  for (const std::int64_t r : global_ranks) {
    if (r == own) continue;
    Parker& parker = rank(r).parker();
    if (!parker.asleep()) {
      parker.notify();  // it may be about to sleep
    } else if (woken < num_helpers_) {
      parker.notify();
      ++woken;
    }
  }
}

bool ThreadWorld::is_stuck() const {
  // Twice: a rank that was seen asleep may have been woken by one that is seen asleep only later.
  for (int pass = 0; pass < 2; ++pass) {
    if (progress_pool_ && !progress_pool_->idle()) return false;
    for (const auto& rank : ranks_) {
      if (!rank->has_left() && !rank->is_stuck()) return false;
    }
  }
  return true;
}

std::string ThreadWorld::describe_waits() const {
  std::vector<std::string> texts;
  for (const auto& rank : ranks_) {
    texts.push_back(rank->has_left() ? fmt::format("rank {} has ended", rank->global_rank())
                                     : rank->waits_for());
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string ThreadWorld::describe_cause(const std::vector<std::int64_t>& missing,
                                        std::int64_t own) const {
  std::vector<std::string> waiting, running;
  for (const auto& rank : ranks_) {
    const std::int64_t number = rank->global_rank();
    if (number == own || rank->has_left()) continue;
    const bool is_missing = std::find(missing.begin(), missing.end(), number) != missing.end();
    if (!rank->is_stuck()) {
      if (is_missing) return "";  // no need to look further
      running.push_back(fmt::format("rank {} is in no call", number));
    } else if (is_missing) {
      waiting.push_back(rank->waits_for());
    }
  }
  if (running.empty()) return "";
  return fmt::format("; {}; {}", fmt::join(waiting, "; "), fmt::join(running, ", "));
}

void ThreadWorld::notify_all() {
  for (auto& rank : ranks_) rank->parker().notify();
}

std::shared_ptr<ThreadGroup> ThreadWorld::join_group(const GroupInfo& info) {
  const std::int64_t own = info.global_ranks[static_cast<std::size_t>(info.coord)];
  const std::uint64_t instance = rank(own).next_instance(info.global_ranks, info.purpose);
  const std::lock_guard lock(groups_mutex_);
  auto& [group, joined] = joining_[{info.global_ranks, info.purpose, instance}];
  if (!group) group = std::make_shared<ThreadGroup>(info.global_ranks, info.axis);
  SX_CHECK(group->axis() == info.axis, "make_group: the same ranks on axis {} and on axis {}",
           group->axis().to_string(), info.axis.to_string());
  std::shared_ptr<ThreadGroup> result = group;
  if (++joined == info.global_ranks.size()) {
    joining_.erase({info.global_ranks, info.purpose, instance});
  }
  return result;
}

std::unique_ptr<Transport> ThreadWorld::make_transport(GroupInfo info) {
  if (info.degree() == 1) return make_solo_transport(std::move(info));
  std::shared_ptr<ThreadGroup> group = join_group(info);
  return make_thread_transport(*this, std::move(group), std::move(info));
}

}  // namespace sx::detail
