#include "sextant/dist/detail/progress_pool.h"

#include <utility>

#include "sextant/dist/detail/thread_world.h"
#include "sextant/tensor/rank_thread.h"

namespace sx::detail {

ProgressPool::ProgressPool(ThreadWorld& world, int num_threads, bool flush_denormals)
    : world_(world) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this, flush_denormals] { run(flush_denormals); });
  }
}

ProgressPool::~ProgressPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ProgressPool::submit(std::shared_ptr<GroupCall> call) {
  num_open_.fetch_add(1, std::memory_order_seq_cst);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(call));
  }
  changed_.notify_one();
}

void ProgressPool::run(bool flush_denormals) {
  prepare_rank_thread({.intra_op_threads = 1, .flush_denormals = flush_denormals});
  for (;;) {
    std::shared_ptr<GroupCall> call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      call = std::move(queue_.front());
      queue_.pop_front();
    }
    call->execute(world_);
    call.reset();
    num_open_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace sx::detail
