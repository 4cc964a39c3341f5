#pragma once

#include <cstdint>
#include <memory>

namespace sx {

class CommSession;

namespace detail {
class PendingOperation;
}

/// A collective in flight. Owns its tensors until completion; move-only; used by the thread that
/// started it.
///
/// Dropping one without `wait()` is a contract error in builds with assertions (reported by the
/// rank's next call, since a destructor neither throws nor communicates); in release the operation
/// stays parked until it completes.
class [[nodiscard]] Handle {
 public:
  Handle() = default;  ///< already done
  /// Calls `first` to `first + count - 1` of the session's flight record.
  Handle(std::shared_ptr<detail::PendingOperation> pending, std::shared_ptr<CommSession> session,
         std::uint64_t first, std::uint64_t count);
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  /// Afterwards the current thread and stream may read the output and reuse the input. Blocks the
  /// host on CPU.
  /// Errors:  DistError.
  void wait();
  /// Never blocks and never throws.
  bool is_done() const;
  /// As `wait()`, and blocks the host on every device.
  void wait_host();

 private:
  void drop() noexcept;
  void wait_by(void (detail::PendingOperation::*how)());
  std::shared_ptr<detail::PendingOperation> pending_;
  std::shared_ptr<CommSession> session_;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace sx
