#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "sextant/dist/detail/call_work.h"
#include "sextant/dist/detail/descriptor.h"

namespace sx::detail {

class ThreadWorld;

/// What one rank brings to a call.
struct CallSlot {
  std::shared_ptr<const Descriptor> descriptor;  ///< null until the rank has come
  at::Tensor in;
  at::Tensor out;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
};

/// One collective call of a group: every rank adds its slot; once all have come the work is there
/// for any thread to do, block by block, whichever rank waits first. It owns the tensors until it
/// is complete, so that a rank which unwinds takes no memory from under another's hands.
class GroupCall {
 public:
  explicit GroupCall(std::vector<std::int64_t> global_ranks);

  // Under the group's lock.
  /// A slot that has come and does not agree with `slot` of `coord`, or -1.
  std::int64_t find_disagreement(std::int64_t coord, const CallSlot& slot) const;
  /// True when `coord` is the last to come.
  bool add(std::int64_t coord, CallSlot slot);
  const Descriptor& descriptor(std::int64_t coord) const {
    return *slots_[static_cast<std::size_t>(coord)].descriptor;
  }

  /// By the last to come, before anybody is told.
  void plan();
  std::int64_t traffic_bytes() const { return work_.traffic_bytes(); }

  bool has_come(std::int64_t coord) const {
    return come_[static_cast<std::size_t>(coord)].load(std::memory_order_acquire);
  }
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  /// Does blocks until none is left to begin, the world is aborted or `enough` is complete; wakes
  /// all members when the call is complete by that.
  void execute(ThreadWorld& world, const GroupCall* enough = nullptr);
  /// Lets the tensors of `coord` go; after completion, by that rank.
  void release(std::int64_t coord);
  /// Begins no further block and returns when none is running: the buffers may go. For a rank that
  /// unwinds.
  void cancel() noexcept;

 private:
  std::vector<std::int64_t> global_ranks_;
  std::vector<CallSlot> slots_;
  std::unique_ptr<std::atomic<bool>[]> come_;
  std::int64_t num_come_ = 0;
  CallWork work_;
  std::atomic<bool> ready_{false};
  alignas(64) std::atomic<std::int64_t> next_block_{0};
  alignas(64) std::atomic<std::int64_t> blocks_done_{0};
  std::atomic<std::int64_t> num_running_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> complete_{false};
};

}  // namespace sx::detail
