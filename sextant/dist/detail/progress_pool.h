#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sextant/dist/detail/thread_call.h"

namespace sx::detail {

/// Threads that do the work of started calls while all ranks compute. They have the same setting of
/// denormals as the ranks, so that it does not matter who folds.
class ProgressPool {
 public:
  ProgressPool(ThreadWorld& world, int num_threads, bool flush_denormals);
  ~ProgressPool();  ///< calls that nobody has begun stay undone
  void submit(std::shared_ptr<GroupCall> call);
  /// Nothing is queued or being worked on.
  bool idle() const { return num_open_.load(std::memory_order_seq_cst) == 0; }

 private:
  void run(bool flush_denormals);

  ThreadWorld& world_;
  std::atomic<std::int64_t> num_open_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<GroupCall>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sx::detail
