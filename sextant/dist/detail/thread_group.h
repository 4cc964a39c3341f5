#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/thread_world.h"

namespace sx::detail {

/// Inputs up to this size are copied when a call starts, so that its owner need not wait until the
/// peers have read them.
inline constexpr std::int64_t kStagedBytes = 16 * 1024;

/// One call of one rank as its peers see it. A rank's calls form a list; peers walk along it.
///
/// Written by the owner before it is linked in (`next` is read after `has_next`); afterwards only
/// the atomics change. It owns its tensors until the operation is done, so that a peer may still
/// read when the owner unwinds from an error.
struct Published {
  Descriptor descriptor;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::vector<std::byte> staged;
  at::Tensor in_owner;
  at::Tensor out_owner;

  std::atomic<std::int64_t> taken{
      0};  ///< peers that have read what they need (not counted when staged)
  std::atomic<bool> reduced{false};  ///< the owner's slice of `out` is final (large all_reduce)

  std::shared_ptr<Published> next;
  std::atomic<bool> has_next{false};

  Published() = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  ~Published();  ///< without recursion along the list

  bool is_staged() const { return !staged.empty(); }
};

/// A send on its way: the receiver takes it, or the sender buffers it when it must go on.
struct Message {
  Descriptor descriptor;
  std::mutex mutex;  ///< guards all below
  const std::byte* data = nullptr;
  at::Tensor owner;
  std::vector<std::byte> staged;
  bool taken = false;
};

/// Messages from one coord to another, in order of the sends.
struct Channel {
  std::mutex mutex;
  std::deque<std::shared_ptr<Message>> messages;
};

/// What the members of one group share.
class ThreadGroup {
 public:
  ThreadGroup(std::int64_t degree, AxisSet axis);
  AxisSet axis() const { return axis_; }
  /// By coord, the empty element before its first call. Each member takes them once; the last one
  /// leaves none behind, so that calls all members have passed are freed.
  std::vector<std::shared_ptr<Published>> take_heads();
  Channel& channel(std::int64_t from, std::int64_t to) {
    return channels_[static_cast<std::size_t>(from * degree_ + to)];
  }

 private:
  std::int64_t degree_;
  AxisSet axis_;
  std::mutex heads_mutex_;
  std::vector<std::shared_ptr<Published>> heads_;
  std::int64_t num_taken_ = 0;
  std::vector<Channel> channels_;
};

class CollectiveOperation;

/// One rank's place in a group.
class ThreadMember {
 public:
  ThreadMember(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info);

  std::shared_ptr<ThreadOperation> start(Operation operation, Descriptor descriptor,
                                         Seconds timeout,
                                         const std::shared_ptr<ThreadMember>& self);
  /// Hands calls that peers have published meanwhile to the own operations of the same place,
  /// comparing them.
  void deliver();
  void close(const CollectiveOperation& operation);

  ThreadWorld& world() { return world_; }
  ThreadGroup& group() { return *group_; }
  const GroupInfo& info() const { return info_; }
  RankState& rank() { return rank_; }
  RankState& rank_of(std::int64_t coord) {
    return world_.rank(info_.global_ranks[static_cast<std::size_t>(coord)]);
  }
  void notify_others();

 private:
  void publish(std::shared_ptr<Published> call);

  ThreadWorld& world_;
  std::shared_ptr<ThreadGroup> group_;
  GroupInfo info_;
  RankState& rank_;
  std::shared_ptr<Published> tail_;                  // own last call
  std::vector<std::shared_ptr<Published>> cursors_;  // last call seen of each other coord
  std::deque<CollectiveOperation*> open_;            // own collectives from open_begin_ on
  std::uint64_t open_begin_ = 0;
};

/// A collective of one rank: waits until every peer has published the call of the same place, then
/// pulls.
class CollectiveOperation final : public ThreadOperation {
 public:
  CollectiveOperation(std::shared_ptr<ThreadMember> member, Operation operation,
                      Descriptor descriptor, Seconds timeout);

  bool advance() override;
  std::vector<std::int64_t> missing_ranks() const override;
  /// Coord `from` has published `call` at this place. Errors: DistError when it is another call.
  void arrive(std::int64_t from, std::shared_ptr<Published> call);
  const std::shared_ptr<Published>& own() const { return own_; }

 private:
  bool advance_by_kind();
  bool advance_broadcast();
  bool advance_all_reduce();
  bool advance_reduce_scatter();
  bool advance_pulls();
  std::pair<std::int64_t, std::int64_t> reduce_slice(std::int64_t coord) const;
  void fold_range(std::int64_t begin, std::int64_t end, std::byte* out);
  void copy_from(std::int64_t coord, const std::byte* source, std::int64_t begin,
                 std::int64_t numel);
  void mark_taken(std::int64_t coord);
  bool all_arrived() const { return num_arrived_ == group().degree(); }
  bool input_is_free() const;

  std::shared_ptr<ThreadMember> member_;
  Operation operation_;
  std::int64_t element_bytes_ = 1;
  std::shared_ptr<Published> own_;
  std::vector<std::shared_ptr<Published>> peers_;  // by coord, own included
  std::vector<bool> pulled_;
  std::int64_t num_arrived_ = 0;
  std::int64_t num_pulled_ = 0;
  bool folded_ = false;
};

class SendOperation final : public ThreadOperation {
 public:
  SendOperation(std::shared_ptr<ThreadMember> member, std::shared_ptr<Message> message,
                Seconds timeout);
  bool advance() override;
  void before_wait() override;
  std::vector<std::int64_t> missing_ranks() const override { return {}; }

 private:
  std::shared_ptr<ThreadMember> member_;
  std::shared_ptr<Message> message_;
  bool staged_ = false;
};

class RecvOperation final : public ThreadOperation {
 public:
  RecvOperation(std::shared_ptr<ThreadMember> member, Operation operation, Descriptor descriptor,
                Seconds timeout);
  bool advance() override;
  std::vector<std::int64_t> missing_ranks() const override;

 private:
  std::shared_ptr<ThreadMember> member_;
  Operation operation_;
};

std::unique_ptr<Transport> make_thread_transport(ThreadWorld& world,
                                                 std::shared_ptr<ThreadGroup> group,
                                                 GroupInfo info);

}  // namespace sx::detail
