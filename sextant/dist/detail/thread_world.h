#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/parker.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/threads.h"

namespace sx::detail {

class ThreadWorld;
class ThreadGroup;
class GroupCall;
class ProgressPool;
class RankState;

/// An operation of one rank on this transport: a small state machine that its rank drives.
class ThreadOperation : public PendingOperation {
 public:
  ThreadOperation(RankState& rank, const GroupInfo& group,
                  std::shared_ptr<const Descriptor> descriptor, Seconds timeout)
      : rank_(rank), group_(group), descriptor_(std::move(descriptor)), timeout_(timeout) {}

  void wait() final;
  bool poll() noexcept final;
  void drop() noexcept final;

  /// Does what can be done now; true when complete. Called by the rank's thread only; not again
  /// after true. Returns early once `target`, which the rank waits for, is complete.
  virtual bool advance(const ThreadOperation* target) = 0;
  /// The owner is about to wait for this operation.
  virtual void before_wait() {}
  /// Global ranks that have not joined.
  virtual std::vector<std::int64_t> missing_ranks() const = 0;

  /// Afterwards no other thread reads or writes the operation's buffers. For a rank that unwinds.
  virtual void cancel() noexcept {}
  /// The call of all ranks that this is a part of, if it is one.
  virtual const GroupCall* call() const { return nullptr; }

  const Descriptor& descriptor() const { return *descriptor_; }
  const std::shared_ptr<const Descriptor>& shared_descriptor() const { return descriptor_; }
  const GroupInfo& group() const { return group_; }
  Seconds timeout() const { return timeout_; }
  bool done() const { return done_; }

 protected:
  RankState& rank() { return rank_; }

 private:
  friend class RankState;
  RankState& rank_;
  const GroupInfo& group_;
  std::shared_ptr<const Descriptor> descriptor_;
  Seconds timeout_;
  bool done_ = false;
};

/// What one rank thread has in flight, and where it sleeps. Other threads use the parker,
/// `has_left`, `is_stuck` and `waits_for`.
class RankState {
 public:
  RankState(ThreadWorld& world, std::int64_t global_rank)
      : world_(world), global_rank_(global_rank) {}

  /// Contract error when an earlier handle was dropped without a wait; DistError when the world is
  /// aborted.
  void before_start(const GroupInfo& group, const Descriptor& descriptor);
  void add(std::shared_ptr<ThreadOperation> operation);
  /// Drives all operations of the rank, `target` first, so that the order of waits cannot deadlock.
  void drive(ThreadOperation* target = nullptr);
  void wait_for(ThreadOperation& operation);
  void drain();  ///< waits for all that is in flight
  /// Nobody touches the buffers of what is in flight any more. For a rank that has failed.
  void cancel_all() noexcept;
  void clear() { pending_.clear(); }
  void note_drop(const ThreadOperation& operation) noexcept;
  const std::string& dropped() const { return dropped_; }

  /// Aborts the world with this fault and throws what every rank gets.
  [[noreturn]] void fail(const ThreadOperation& operation, DistFault fault,
                         const std::string& message, Seconds waited = Seconds{});

  ThreadWorld& world() { return world_; }
  std::int64_t global_rank() const { return global_rank_; }
  Parker& parker() { return parker_; }
  void leave();
  bool has_left() const { return left_.load(std::memory_order_acquire); }
  /// Whether the rank sleeps in a wait and nothing has changed for it since it last looked.
  bool is_stuck() const;
  /// What it waits for: "rank 2 in all_reduce ... on dp_shard (reduce)".
  std::string waits_for() const;
  /// Which of this rank's groups over the same ranks and purpose comes next.
  std::uint64_t next_instance(const std::vector<std::int64_t>& ranks, Purpose purpose) {
    return instances_[{ranks, purpose}]++;
  }

 private:
  void check_peers_are_there(ThreadOperation& operation, Seconds waited);
  void sleep(ThreadOperation& operation, std::uint32_t seen, std::chrono::nanoseconds limit,
             Seconds waited);

  ThreadWorld& world_;
  std::int64_t global_rank_;
  Parker parker_;
  std::atomic<bool> left_{false};
  std::atomic<std::uint64_t> asleep_at_{0};  // 1 + the epoch it sleeps at, 0 while it runs
  mutable std::mutex waiting_mutex_;
  std::shared_ptr<const Descriptor> waiting_for_;  // the two are of use while asleep
  const GroupInfo* waiting_in_ = nullptr;
  std::vector<std::shared_ptr<ThreadOperation>> pending_;  // in order of start
  std::map<std::pair<std::vector<std::int64_t>, Purpose>, std::uint64_t> instances_;
  std::string dropped_;
};

/// W rank threads of one process.
class ThreadWorld {
 public:
  ThreadWorld(std::int64_t world_size, const ThreadsOptions& options);
  ~ThreadWorld();

  std::int64_t world_size() const { return static_cast<std::int64_t>(ranks_.size()); }
  RankState& rank(std::int64_t global_rank) {
    return *ranks_[static_cast<std::size_t>(global_rank)];
  }
  const ThreadsOptions& options() const { return options_; }
  int spin_limit() const { return spin_limit_; }
  ProgressPool* progress_pool() { return progress_pool_.get(); }

  std::unique_ptr<Transport> make_transport(GroupInfo group);

  /// The first call counts: it is what every rank throws. Wakes all ranks.
  void abort(DistFault fault, std::int64_t origin_rank, const std::string& message);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  /// The error of an aborted world as seen from one call.
  DistError error_of(const GroupInfo& group, const Descriptor& descriptor, Seconds waited) const;
  std::int64_t origin_rank() const { return origin_rank_; }
  void notify_all();
  void notify(const std::vector<std::int64_t>& global_ranks);
  /// Tells the members that there is work. Of those asleep it wakes as many as there are cores
  /// beside the caller's; the others are woken when the work is done.
  void notify_helpers(const std::vector<std::int64_t>& global_ranks, std::int64_t own);
  /// True when every rank sleeps in a wait or has ended, and so nothing can change any more. Asked
  /// by a rank that is marked as asleep itself.
  bool is_stuck() const;
  /// All waits of such a world in one line.
  /// Where the ranks that one waits for wait themselves: what they do, and who is in no call at
  /// all.
  std::string describe_cause(const std::vector<std::int64_t>& missing, std::int64_t own) const;
  std::string describe_waits() const;
  std::atomic<std::int64_t>& num_asleep() { return num_asleep_; }

 private:
  std::shared_ptr<ThreadGroup> join_group(const GroupInfo& group);

  ThreadsOptions options_;
  int spin_limit_ = 0;
  std::int64_t num_helpers_ = 1;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::atomic<std::int64_t> num_asleep_{0};  // ranks asleep or ended

  std::mutex groups_mutex_;
  using GroupKey = std::tuple<std::vector<std::int64_t>, Purpose, std::uint64_t>;
  std::map<GroupKey, std::pair<std::shared_ptr<ThreadGroup>, std::size_t>> joining_;

  std::mutex abort_mutex_;
  std::atomic<bool> aborted_{false};  // set after the three below, which do not change any more
  DistFault fault_ = DistFault::kAborted;
  std::int64_t origin_rank_ = 0;
  std::string reason_;

  std::unique_ptr<ProgressPool> progress_pool_;  // last: its threads use all above
};

}  // namespace sx::detail
