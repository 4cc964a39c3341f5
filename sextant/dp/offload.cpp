#include "sextant/dp/offload.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {

OffloadQueue::OffloadQueue(double max_delay, std::uint64_t seed)
    : max_delay_(max_delay), seed_(seed), thread_([this] { work(); }) {}

OffloadQueue::~OffloadQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

OffloadQueue::Ticket OffloadQueue::start_copy(at::Tensor to, at::Tensor from) {
  SX_CHECK(to.numel() == from.numel() && to.is_contiguous() && from.is_contiguous(),
           "a copy of {} elements to {}, contiguous both", from.numel(), to.numel());
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(to), std::move(from)});
  changed_.notify_all();
  return ++started_;
}

void OffloadQueue::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  SX_CHECK(ticket <= started_, "copy {} of {}", ticket, started_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
}

bool OffloadQueue::is_done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

void OffloadQueue::work() {
  prepare_rank_thread({});
  const at::NoGradGuard no_grad;
  const RandomStream random(seed_, "test.offload_delay");
  for (std::uint64_t draw = 0;; ++draw) {
    Copy copy;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      copy = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (max_delay_ > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(max_delay_ * random.uniform(draw)));
    }
    if (copy.to.numel() > 0) copy.to.copy_(copy.from);
    copy = {};
    {
      const std::lock_guard lock(mutex_);
      ++done_;
    }
    changed_.notify_all();
  }
}

}  // namespace sx
