#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sx::detail {

/// Where one thread sleeps until others have changed something it waits for. (std::atomic::wait has
/// no time-out.)
///
///   for (;;) {
///     const auto seen = parker.epoch();
///     if (condition()) break;
///     parker.park(seen, remaining);
///   }
///
/// A change made before `notify()` is seen by the condition, or the epoch differs and `park`
/// returns at once.
class Parker {
 public:
  std::uint32_t epoch() const { return epoch_.load(std::memory_order_seq_cst); }
  /// Whether the owner sleeps, as far as can be said from outside.
  bool asleep() const { return parked_.load(std::memory_order_seq_cst) != 0; }
  /// From any thread: wakes the owner if it sleeps; a system call only then.
  void notify();
  /// By the owner: sleeps while the epoch is still `seen`, at most `timeout`. May return early.
  void park(std::uint32_t seen, std::chrono::nanoseconds timeout);

 private:
  alignas(128) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> parked_{0};
};

/// Tells the core that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace sx::detail
