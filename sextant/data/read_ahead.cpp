#include "sextant/data/read_ahead.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

namespace sx {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatienceAtEnd{1};

Result<Batch> make_without_throwing(const ReadAhead::Make& make, std::uint64_t index) {
  try {
    return make(index);
  } catch (const std::exception& thrown) {
    return Error{ErrorKind::kInternal, thrown.what(), fmt::format("batch {}", index)};
  }
}

}  // namespace

// Shared with the workers, so that one left behind keeps what it touches.
struct ReadAhead::State {
  explicit State(Make function) : make(std::move(function)) {}

  Make make;
  std::mutex mutex;
  std::condition_variable ready;     ///< a slot was filled
  std::condition_variable space;     ///< a slot was emptied, or stop
  std::condition_variable finished;  ///< a worker left
  struct Slot {
    std::optional<Result<Batch>> result;
    Clock::time_point started;
    bool in_work = false;
  };
  std::vector<Slot> slots;    ///< batch i lives in slot i % size
  std::uint64_t to_make = 0;  ///< first batch nobody works on
  std::uint64_t to_give = 0;  ///< first batch the consumer has not got
  bool stopping = false;
  std::optional<Error> failed;
  std::vector<bool> left;  ///< by worker
  std::vector<std::thread> threads;

  void work(std::size_t worker) {
    std::unique_lock lock(mutex);
    for (;;) {
      space.wait(lock, [this] { return stopping || to_make < to_give + slots.size(); });
      if (stopping) break;
      const std::uint64_t index = to_make++;
      Slot& slot = slots[index % slots.size()];
      slot.started = Clock::now();
      slot.in_work = true;
      lock.unlock();
      Result<Batch> made = make_without_throwing(make, index);
      lock.lock();
      slot.result.emplace(std::move(made));
      slot.in_work = false;
      ready.notify_all();
    }
    left[worker] = true;
    finished.notify_all();
  }
};

ReadAhead::ReadAhead(Make make, int workers, int lookahead)
    : state_(std::make_shared<State>(std::move(make))) {
  SX_CHECK(workers > 0 && lookahead > 0, "{} workers, {} batches ahead", workers, lookahead);
  state_->slots.resize(static_cast<std::size_t>(lookahead));
  state_->left.resize(static_cast<std::size_t>(workers), false);
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers); ++i) {
    state_->threads.emplace_back([state = state_, i] { state->work(i); });
  }
}

ReadAhead::~ReadAhead() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->space.notify_all();
  const auto all_left = [this] {
    for (const bool left : state_->left) {
      if (!left) return false;
    }
    return true;
  };
  state_->finished.wait_for(lock, kPatienceAtEnd, all_left);
  const std::vector<bool> left = state_->left;
  std::vector<std::thread> threads = std::move(state_->threads);
  lock.unlock();
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (left[i]) {
      threads[i].join();
    } else {
      threads[i].detach();
    }
  }
}

Result<Batch> ReadAhead::next(Seconds timeout) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.failed) return *state.failed;
  State::Slot& slot = state.slots[state.to_give % state.slots.size()];
  const bool in_time = state.ready.wait_for(lock, std::chrono::duration<double>(timeout.value),
                                            [&] { return slot.result.has_value(); });
  if (!in_time) {
    const std::chrono::duration<double> age = Clock::now() - slot.started;
    return Error{
        ErrorKind::kTimeout,
        fmt::format("batch {} is not ready after {}{}", state.to_give, format_duration(timeout),
                    slot.in_work ? fmt::format("; a reader works on it since {}",
                                               format_duration(Seconds{age.count()}))
                                 : std::string("; no reader has begun it")),
        "data loader"};
  }
  Result<Batch> result = std::move(*slot.result);
  if (!result.ok()) {
    state.failed = result.error();
    return result;
  }
  slot.result.reset();
  ++state.to_give;
  state.space.notify_one();
  return result;
}

}  // namespace sx
