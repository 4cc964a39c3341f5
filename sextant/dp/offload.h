#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace sx {

/// Copies between the memory that computes and the store that keeps what is offloaded, one after
/// the other, on a thread of their own. Nothing orders them against anything else: whoever needs a
/// copy waits for it. (On CPUs the store is a second arena in the same memory, so what can go wrong
/// with a device can go wrong here.)
///
/// Threads: one owner starts and waits.
class OffloadQueue {
 public:
  /// A copy that was started; 0 is one that is done.
  using Ticket = std::uint64_t;

  /// Each copy begins after a random time of up to `max_delay` seconds, drawn from `seed`.
  explicit OffloadQueue(double max_delay = 0.0, std::uint64_t seed = 0);
  ~OffloadQueue();  ///< when all that was started has ended
  OffloadQueue(const OffloadQueue&) = delete;
  OffloadQueue& operator=(const OffloadQueue&) = delete;

  /// to[i] = from[i] in the dtype of `to`; both have the same number of elements, are contiguous
  /// and stay as they are until the copy is done.
  Ticket start_copy(at::Tensor to, at::Tensor from);
  void wait(Ticket ticket);
  bool is_done(Ticket ticket) const;

 private:
  struct Copy {
    at::Tensor to, from;
  };
  void work();

  double max_delay_;
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> waiting_;
  Ticket started_ = 0, done_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace sx
