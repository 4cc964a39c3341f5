#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/thread_call.h"
#include "sextant/dist/detail/thread_world.h"

namespace sx::detail {

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

/// What the members of one group share: the calls that not all have come to, and the messages.
class ThreadGroup {
 public:
  ThreadGroup(std::vector<std::int64_t> global_ranks, AxisSet axis);
  AxisSet axis() const { return axis_; }

  struct Joined {
    std::shared_ptr<GroupCall> call;
    bool last = false;
    std::int64_t disagrees = -1;  ///< coord whose call is another one; nothing was added then
  };
  /// Rank `coord` makes its call number `place` on this group.
  Joined join(std::uint64_t place, std::int64_t coord, CallSlot slot);

  Channel& channel(std::int64_t from, std::int64_t to) {
    return channels_[static_cast<std::size_t>(from) * global_ranks_.size() +
                     static_cast<std::size_t>(to)];
  }

 private:
  std::vector<std::int64_t> global_ranks_;
  AxisSet axis_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<GroupCall>> calls_;  // from place begin_ on
  std::uint64_t begin_ = 0;
  std::vector<Channel> channels_;
};

/// One rank's place in a group.
class ThreadMember {
 public:
  ThreadMember(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info);

  /// Null when the call is complete already.
  std::shared_ptr<ThreadOperation> start(Operation operation, Descriptor descriptor,
                                         Seconds timeout,
                                         const std::shared_ptr<ThreadMember>& self);

  ThreadWorld& world() { return world_; }
  ThreadGroup& group() { return *group_; }
  const GroupInfo& info() const { return info_; }
  RankState& rank() { return rank_; }
  RankState& rank_of(std::int64_t coord) {
    return world_.rank(info_.global_ranks[static_cast<std::size_t>(coord)]);
  }

 private:
  std::shared_ptr<ThreadOperation> start_collective(Operation operation, Descriptor descriptor,
                                                    Seconds timeout,
                                                    const std::shared_ptr<ThreadMember>& self);
  std::shared_ptr<ThreadOperation> start_send(Operation operation, Descriptor descriptor,
                                              Seconds timeout,
                                              const std::shared_ptr<ThreadMember>& self);

  ThreadWorld& world_;
  std::shared_ptr<ThreadGroup> group_;
  GroupInfo info_;
  RankState& rank_;
  std::uint64_t place_ = 0;  // of the next collective, whatever number its descriptor gives it
};

/// A collective of one rank.
class CollectiveOperation final : public ThreadOperation {
 public:
  CollectiveOperation(std::shared_ptr<ThreadMember> member,
                      std::shared_ptr<const Descriptor> descriptor, Seconds timeout);

  void joined(std::shared_ptr<GroupCall> call) { call_ = std::move(call); }
  bool advance(const ThreadOperation* target) override;
  std::vector<std::int64_t> missing_ranks() const override;
  void cancel() noexcept override;
  const GroupCall* call() const override { return call_.get(); }

 private:
  std::shared_ptr<ThreadMember> member_;
  std::shared_ptr<GroupCall> call_;
};

class SendOperation final : public ThreadOperation {
 public:
  SendOperation(std::shared_ptr<ThreadMember> member, std::shared_ptr<Message> message,
                Seconds timeout);
  bool advance(const ThreadOperation* target) override;
  void before_wait() override;
  std::vector<std::int64_t> missing_ranks() const override { return {}; }
  void cancel() noexcept override;

 private:
  std::shared_ptr<ThreadMember> member_;
  std::shared_ptr<Message> message_;
  bool staged_ = false;
};

class RecvOperation final : public ThreadOperation {
 public:
  RecvOperation(std::shared_ptr<ThreadMember> member, Operation operation, Descriptor descriptor,
                Seconds timeout);
  bool advance(const ThreadOperation* target) override;
  std::vector<std::int64_t> missing_ranks() const override;

 private:
  std::shared_ptr<ThreadMember> member_;
  Operation operation_;
};

std::unique_ptr<Transport> make_thread_transport(ThreadWorld& world,
                                                 std::shared_ptr<ThreadGroup> group,
                                                 GroupInfo info);

}  // namespace sx::detail
