#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace sx {

/// Cores in the affinity mask of this process (not of the machine), at least 1.
std::size_t usable_cores();

/// A fixed set of worker threads. Tasks must not throw: they hand a `Result` to their consumer.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t num_threads);
  ~ThreadPool();  ///< waits for all tasks
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t num_threads() const;
  void submit(std::function<void()> task);
  /// Blocks until every submitted task is done.
  void wait();
  /// Runs body(i) for i in [0, count) over the workers and the caller; returns when all are done. Which thread runs
  /// which i is not fixed, so results must be stored by i.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
