// One rank's side of a group of rank threads: publishes its calls, meets the peers' calls of the
// same place.
#include <cstring>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/dist/detail/thread_group.h"

namespace sx::detail {

Published::~Published() {
  // A long chain that only this element holds would otherwise be freed by as many nested calls.
  std::shared_ptr<Published> rest = std::move(next);
  while (rest && rest.use_count() == 1) {
    // Copied, not moved: a peer that let go of `rest` a moment ago has read the same pointer.
    std::shared_ptr<Published> after =
        rest->has_next.load(std::memory_order_acquire) ? rest->next : nullptr;
    rest = std::move(after);
  }
}

ThreadGroup::ThreadGroup(std::int64_t degree, AxisSet axis)
    : degree_(degree), axis_(axis), channels_(static_cast<std::size_t>(degree * degree)) {
  for (std::int64_t coord = 0; coord < degree; ++coord)
    heads_.push_back(std::make_shared<Published>());
}

std::vector<std::shared_ptr<Published>> ThreadGroup::take_heads() {
  const std::lock_guard lock(heads_mutex_);
  SX_CHECK(num_taken_ < degree_, "a group of {} ranks has one member more", degree_);
  return ++num_taken_ < degree_ ? heads_ : std::exchange(heads_, {});
}

ThreadMember::ThreadMember(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info)
    : world_(world),
      group_(std::move(group)),
      info_(std::move(info)),
      rank_(world.rank(info_.global_ranks[static_cast<std::size_t>(info_.coord)])),
      cursors_(group_->take_heads()) {
  tail_ = std::exchange(cursors_[static_cast<std::size_t>(info_.coord)], nullptr);
}

std::shared_ptr<ThreadOperation> ThreadMember::start(Operation operation, Descriptor descriptor,
                                                     Seconds timeout,
                                                     const std::shared_ptr<ThreadMember>& self) {
  rank_.before_start(info_, descriptor);

  std::shared_ptr<ThreadOperation> result;
  if (operation.op == Collective::kSend) {
    auto message = std::make_shared<Message>();
    message->data = static_cast<const std::byte*>(operation.in.const_data_ptr());
    message->owner = operation.in;
    message->descriptor = descriptor;
    {
      Channel& channel = group_->channel(info_.coord, operation.peer);
      const std::lock_guard lock(channel.mutex);
      channel.messages.push_back(message);
    }
    result = std::make_shared<SendOperation>(self, message, timeout);
    rank_of(operation.peer).parker().notify();
  } else if (operation.op == Collective::kRecv) {
    result =
        std::make_shared<RecvOperation>(self, std::move(operation), std::move(descriptor), timeout);
  } else {
    auto collective = std::make_shared<CollectiveOperation>(self, std::move(operation),
                                                            std::move(descriptor), timeout);
    open_.push_back(collective.get());
    publish(collective->own());
    result = std::move(collective);
  }
  rank_.add(result);
  return result;
}

void ThreadMember::publish(std::shared_ptr<Published> call) {
  tail_->next = call;
  tail_->has_next.store(true, std::memory_order_release);
  tail_ = std::move(call);
  notify_others();
}

void ThreadMember::notify_others() {
  for (std::int64_t coord = 0; coord < info_.degree(); ++coord) {
    if (coord != info_.coord) rank_of(coord).parker().notify();
  }
}

void ThreadMember::deliver() {
  for (std::int64_t coord = 0; coord < info_.degree(); ++coord) {
    if (coord == info_.coord) continue;
    auto& cursor = cursors_[static_cast<std::size_t>(coord)];
    while (cursor->has_next.load(std::memory_order_acquire)) {
      const std::shared_ptr<Published> call = cursor->next;
      const std::uint64_t place = call->descriptor.sequence;
      if (place >= open_begin_ + open_.size()) break;  // the peer is ahead of us
      cursor = call;
      open_[static_cast<std::size_t>(place - open_begin_)]->arrive(coord, call);
    }
  }
}

void ThreadMember::close(const CollectiveOperation& operation) {
  // Later calls may be done before earlier ones; a closed place in the middle goes when it comes to
  // the front.
  open_[static_cast<std::size_t>(operation.descriptor().sequence - open_begin_)] = nullptr;
  while (!open_.empty() && open_.front() == nullptr) {
    open_.pop_front();
    ++open_begin_;
  }
}

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadWorld& world, std::shared_ptr<ThreadGroup> group, GroupInfo info)
      : member_(std::make_shared<ThreadMember>(world, std::move(group), std::move(info))) {
    capabilities_.transport = "threads";
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
