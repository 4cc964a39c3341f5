#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace sx {

/// Cores in the affinity mask of this process (not of the machine), at least 1.
std::size_t usable_cores();

/// A fixed set of worker threads. Tasks hand a `Result` to their consumer and do not throw; should
/// one break a contract (ContractError), `wait` and `parallel_for` throw the first of them in the
/// caller once the work is done.
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
  /// Runs body(i) for i in [0, count) over the workers and the caller; returns when all are done.
  /// Which thread runs which i is not fixed, so results must be stored by i. May be called from
  /// inside a task.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
