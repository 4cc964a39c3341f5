#include "sextant/dist/handle.h"

#include <exception>
#include <utility>

#include "sextant/dist/comm_session.h"
#include "sextant/dist/detail/transport.h"

namespace sx {

Handle::Handle(std::shared_ptr<detail::PendingOperation> pending,
               std::shared_ptr<CommSession> session, std::uint64_t first, std::uint64_t count)
    : pending_(std::move(pending)), session_(std::move(session)), first_(first), count_(count) {}
Handle::Handle(Handle&& other) noexcept = default;

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    drop();
    pending_ = std::move(other.pending_);
    session_ = std::move(other.session_);
    first_ = other.first_;
    count_ = other.count_;
  }
  return *this;
}

Handle::~Handle() { drop(); }

void Handle::drop() noexcept {
  if (pending_) pending_->drop();
  pending_.reset();
}

void Handle::wait() { wait_by(&detail::PendingOperation::wait); }

void Handle::wait_by(void (detail::PendingOperation::*how)()) {
  if (!pending_) return;
  const auto pending = std::move(pending_);
  const auto session = std::move(session_);
  try {
    (pending.get()->*how)();
  } catch (const std::exception& e) {
    for (std::uint64_t i = 0; i < count_; ++i) session->end_call(first_ + i, FlightState::kFailed);
    session->dump(e.what(), true);
    throw;
  }
  for (std::uint64_t i = 0; i < count_; ++i) session->end_call(first_ + i, FlightState::kDone);
}

bool Handle::is_done() const { return !pending_ || pending_->poll(); }

void Handle::wait_host() { wait_by(&detail::PendingOperation::wait_host); }

}  // namespace sx
