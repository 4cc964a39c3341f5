// Send and receive between rank threads. A message is taken straight from the sender's buffer when
// the receiver comes in time; a sender that waits first copies it aside and goes on.
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "sextant/dist/detail/thread_group.h"

namespace sx::detail {

SendOperation::SendOperation(std::shared_ptr<ThreadMember> member, std::shared_ptr<Message> message,
                             Seconds timeout)
    : ThreadOperation(member->rank(), member->info(),
                      std::make_shared<const Descriptor>(message->descriptor), timeout),
      member_(std::move(member)),
      message_(std::move(message)) {}

bool SendOperation::advance(const ThreadOperation*) {
  if (staged_) return true;
  const std::lock_guard lock(message_->mutex);
  return message_->taken;
}

void SendOperation::before_wait() {
  const std::lock_guard lock(message_->mutex);
  if (!message_->taken && !staged_) {
    message_->staged.assign(message_->data, message_->data + descriptor().bytes());
    message_->data = message_->staged.data();
    message_->owner = at::Tensor();
  }
  staged_ = true;
}

/// The receiver copies under the lock, so afterwards it has the message or never looks at it again.
void SendOperation::cancel() noexcept {
  const std::lock_guard lock(message_->mutex);
  message_->data = nullptr;
}

RecvOperation::RecvOperation(std::shared_ptr<ThreadMember> member, Operation operation,
                             Descriptor descriptor, Seconds timeout)
    : ThreadOperation(member->rank(), member->info(),
                      std::make_shared<const Descriptor>(std::move(descriptor)), timeout),
      member_(std::move(member)),
      operation_(std::move(operation)) {}

std::vector<std::int64_t> RecvOperation::missing_ranks() const {
  return {group().global_ranks[static_cast<std::size_t>(operation_.peer)]};
}

bool RecvOperation::advance(const ThreadOperation*) {
  Channel& channel = member_->group().channel(operation_.peer, group().coord);
  std::shared_ptr<Message> message;
  {
    const std::lock_guard lock(channel.mutex);
    for (auto it = channel.messages.begin(); it != channel.messages.end(); ++it) {
      if ((*it)->descriptor.tag != operation_.tag) continue;
      message = *it;
      channel.messages.erase(it);
      break;
    }
  }
  if (!message) return false;
  const Descriptor& sent = message->descriptor;
  if (sent.dtype != descriptor().dtype || sent.numel != descriptor().numel ||
      sent.unit != descriptor().unit) {
    rank().fail(*this, DistFault::kMismatch,
                fmt::format("rank {} calls {}, rank {} calls {}", member_->rank().global_rank(),
                            descriptor().to_string(),
                            member_->rank_of(operation_.peer).global_rank(), sent.to_string()));
  }
  {
    const std::lock_guard lock(message->mutex);
    if (message->data == nullptr && sent.bytes() > 0) return false;  // its sender has failed
    if (sent.bytes() > 0) {
      std::memcpy(operation_.out.mutable_data_ptr(), message->data,
                  static_cast<std::size_t>(sent.bytes()));
    }
    message->taken = true;
    message->owner = at::Tensor();
  }
  member_->rank_of(operation_.peer).parker().notify();
  operation_.out = at::Tensor();
  return true;
}

}  // namespace sx::detail
