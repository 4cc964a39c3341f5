#pragma once

#include <memory>

namespace sx {

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
  explicit Handle(std::shared_ptr<detail::PendingOperation> pending);
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
  std::shared_ptr<detail::PendingOperation> pending_;
};

}  // namespace sx
