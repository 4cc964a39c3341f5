#include "sextant/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

namespace sx {

std::size_t usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&mask)));
  }
  return std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable all_done;
  std::deque<std::function<void()>> tasks;
  std::size_t num_unfinished = 0;  // queued or running
  bool stopping = false;
  std::exception_ptr defect;
  std::vector<std::thread> threads;

  void run_worker() {
    std::unique_lock lock(mutex);
    for (;;) {
      work_ready.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (tasks.empty()) return;
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      std::exception_ptr thrown;
      try {
        task();
      } catch (...) {
        thrown = std::current_exception();
      }
      task = nullptr;  // what it holds goes before `wait` returns
      lock.lock();
      if (thrown && !defect) defect = thrown;
      if (--num_unfinished == 0) all_done.notify_all();
    }
  }
};

ThreadPool::ThreadPool(std::size_t num_threads) : state_(std::make_unique<State>()) {
  SX_CHECK(num_threads > 0, "a thread pool needs at least one thread");
  state_->threads.reserve(num_threads);
  for (std::size_t i = 0; i < num_threads; ++i) {
    state_->threads.emplace_back([state = state_.get()] { state->run_worker(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_ready.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

std::size_t ThreadPool::num_threads() const { return state_->threads.size(); }

void ThreadPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
    ++state_->num_unfinished;
  }
  state_->work_ready.notify_one();
}

void ThreadPool::wait() {
  std::unique_lock lock(state_->mutex);
  state_->all_done.wait(lock, [this] { return state_->num_unfinished == 0; });
  if (std::exception_ptr defect = std::exchange(state_->defect, nullptr)) {
    lock.unlock();
    std::rethrow_exception(defect);
  }
}

void ThreadPool::parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  // Shared with the helpers, because one may start only after the last index is done and the caller
  // has left. `body` itself is touched only while an index is open, so a reference suffices.
  struct Loop {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::condition_variable finished;
    std::size_t num_done = 0;
    std::exception_ptr defect;
  };
  const auto loop = std::make_shared<Loop>();
  const auto run = [loop, count, &body] {
    for (;;) {
      const std::size_t i = loop->next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      std::exception_ptr thrown;
      try {
        body(i);
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(loop->mutex);
      if (thrown && !loop->defect) loop->defect = thrown;
      if (++loop->num_done == count) loop->finished.notify_all();
    }
  };
  const std::size_t num_helpers = count > 1 ? std::min(count - 1, num_threads()) : 0;
  for (std::size_t i = 0; i < num_helpers; ++i) submit(run);
  run();
  std::unique_lock lock(loop->mutex);
  loop->finished.wait(lock, [&] { return loop->num_done == count; });
  if (loop->defect) std::rethrow_exception(loop->defect);
}

}  // namespace sx
