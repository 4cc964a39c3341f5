// One rank's side of a group of rank threads: it joins calls, and does the work of calls that all
// have joined.
#include <fmt/format.h>

#include <utility>

#include "sextant/base/check.h"
#include "sextant/dist/detail/progress_pool.h"
#include "sextant/dist/detail/thread_group.h"

namespace sx::detail {
namespace {

/// Work up to this is done on the spot by the rank that comes last: waking others costs more.
constexpr std::int64_t kInlineBytes = 256 * 1024;

}  // namespace

ThreadGroup::ThreadGroup(std::vector<std::int64_t> global_ranks, AxisSet axis)
    : global_ranks_(std::move(global_ranks)),
      axis_(axis),
      channels_(global_ranks_.size() * global_ranks_.size()) {}

ThreadGroup::Joined ThreadGroup::join(std::uint64_t place, std::int64_t coord, CallSlot slot) {
  const std::lock_guard lock(mutex_);
  while (place - begin_ >= calls_.size()) {
    calls_.push_back(std::make_shared<GroupCall>(global_ranks_));
  }
  Joined joined{.call = calls_[place - begin_]};
  joined.disagrees = joined.call->find_disagreement(coord, slot);
  if (joined.disagrees >= 0) return joined;
  joined.last = joined.call->add(coord, std::move(slot));
  if (joined.last) {  // it is the first one: every rank has been to the earlier places
    calls_.pop_front();
    ++begin_;
  }
  return joined;
}

ThreadMember::ThreadMember(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info)
    : world_(world),
      group_(std::move(group)),
      info_(std::move(info)),
      rank_(world.rank(info_.global_ranks[static_cast<std::size_t>(info_.coord)])) {}

std::shared_ptr<ThreadOperation> ThreadMember::start(Operation operation, Descriptor descriptor,
                                                     Seconds timeout,
                                                     const std::shared_ptr<ThreadMember>& self) {
  rank_.before_start(info_, descriptor);
  std::shared_ptr<ThreadOperation> result;
  if (operation.op == Collective::kSend) {
    result = start_send(std::move(operation), std::move(descriptor), timeout, self);
  } else if (operation.op == Collective::kRecv) {
    result =
        std::make_shared<RecvOperation>(self, std::move(operation), std::move(descriptor), timeout);
  } else {
    result = start_collective(std::move(operation), std::move(descriptor), timeout, self);
  }
  if (result) rank_.add(result);
  return result;
}

std::shared_ptr<ThreadOperation> ThreadMember::start_send(
    Operation operation, Descriptor descriptor, Seconds timeout,
    const std::shared_ptr<ThreadMember>& self) {
  auto message = std::make_shared<Message>();
  message->data = static_cast<const std::byte*>(operation.in.const_data_ptr());
  message->owner = operation.in;
  message->descriptor = std::move(descriptor);
  {
    Channel& channel = group_->channel(info_.coord, operation.peer);
    const std::lock_guard lock(channel.mutex);
    channel.messages.push_back(message);
  }
  rank_of(operation.peer).parker().notify();
  return std::make_shared<SendOperation>(self, message, timeout);
}

std::shared_ptr<ThreadOperation> ThreadMember::start_collective(
    Operation operation, Descriptor descriptor, Seconds timeout,
    const std::shared_ptr<ThreadMember>& self) {
  const auto shared = std::make_shared<const Descriptor>(std::move(descriptor));
  auto result = std::make_shared<CollectiveOperation>(self, shared, timeout);
  const ThreadGroup::Joined joined =
      group_->join(place_++, info_.coord,
                   {.descriptor = shared,
                    .in = std::move(operation.in),
                    .out = std::move(operation.out),
                    .send_counts = std::move(operation.send_counts),
                    .recv_counts = std::move(operation.recv_counts)});
  GroupCall& call = *joined.call;
  if (joined.disagrees >= 0) {
    const Descriptor& other = call.descriptor(joined.disagrees);
    const bool earlier =
        other.history != shared->history && other.to_string() == shared->to_string();
    rank_.fail(
        *result, DistFault::kMismatch,
        fmt::format("rank {} calls {}, rank {} calls {}{}", rank_.global_rank(),
                    shared->to_string(), rank_of(joined.disagrees).global_rank(), other.to_string(),
                    earlier ? " (an earlier call on this communicator differed)" : ""));
  }
  result->joined(joined.call);
  if (!joined.last) return result;

  call.plan();
  if (call.complete()) {
    world_.notify(info_.global_ranks);
  } else if (call.traffic_bytes() <= kInlineBytes) {
    call.execute(world_);
  } else {
    if (ProgressPool* pool = world_.progress_pool()) pool->submit(joined.call);
    world_.notify_helpers(info_.global_ranks, rank_.global_rank());
  }
  if (!call.complete()) return result;
  call.release(info_.coord);
  return nullptr;
}

CollectiveOperation::CollectiveOperation(std::shared_ptr<ThreadMember> member,
                                         std::shared_ptr<const Descriptor> descriptor,
                                         Seconds timeout)
    : ThreadOperation(member->rank(), member->info(), std::move(descriptor), timeout),
      member_(std::move(member)) {}

bool CollectiveOperation::advance(const ThreadOperation* target) {
  if (!call_->ready()) return false;
  if (!call_->complete()) {
    call_->execute(member_->world(),
                   target == nullptr || target == this ? nullptr : target->call());
  }
  if (!call_->complete()) return false;
  call_->release(group().coord);
  return true;
}

std::vector<std::int64_t> CollectiveOperation::missing_ranks() const {
  std::vector<std::int64_t> missing;
  for (std::int64_t coord = 0; coord < group().degree(); ++coord) {
    if (!call_ || !call_->has_come(coord)) {
      missing.push_back(group().global_ranks[static_cast<std::size_t>(coord)]);
    }
  }
  return missing;
}

void CollectiveOperation::cancel() noexcept {
  if (call_) call_->cancel();
}

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info)
      : member_(std::make_shared<ThreadMember>(world, std::move(group), std::move(info))) {
    capabilities_.transport = "threads";
    capabilities_.overlap = world.progress_pool() != nullptr;
  }

  const GroupInfo& group() const override { return member_->info(); }
  const Capabilities& capabilities() const override { return capabilities_; }

  std::shared_ptr<PendingOperation> start(Operation operation, Descriptor descriptor,
                                          Seconds timeout) override {
    return member_->start(std::move(operation), std::move(descriptor), timeout, member_);
  }
  std::unique_ptr<Transport> make_group(GroupInfo info) override {
    return member_->world().make_transport(std::move(info));
  }
  void abort(const std::string& reason) override {
    member_->world().abort(DistFault::kAborted, member_->rank().global_rank(), reason);
  }

 private:
  std::shared_ptr<ThreadMember> member_;
  Capabilities capabilities_;
};

}  // namespace

std::unique_ptr<Transport> make_thread_transport(ThreadWorld& world,
                                                 std::shared_ptr<ThreadGroup> group,
                                                 GroupInfo info) {
  return std::make_unique<ThreadTransport>(world, std::move(group), std::move(info));
}

}  // namespace sx::detail
