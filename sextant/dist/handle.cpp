#include "sextant/dist/handle.h"

#include <utility>

#include "sextant/dist/detail/transport.h"

namespace sx {

Handle::Handle(std::shared_ptr<detail::PendingOperation> pending) : pending_(std::move(pending)) {}
Handle::Handle(Handle&& other) noexcept = default;

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    drop();
    pending_ = std::move(other.pending_);
  }
  return *this;
}

Handle::~Handle() { drop(); }

void Handle::drop() noexcept {
  if (pending_) pending_->drop();
  pending_.reset();
}

void Handle::wait() {
  if (!pending_) return;
  const auto pending = std::move(pending_);
  pending->wait();
}

bool Handle::is_done() const { return !pending_ || pending_->poll(); }

void Handle::wait_host() { wait(); }

}  // namespace sx
