#include "sextant/dist/detail/thread_call.h"

#include <thread>
#include <utility>

#include "sextant/dist/detail/thread_world.h"

namespace sx::detail {

GroupCall::GroupCall(std::vector<std::int64_t> global_ranks)
    : global_ranks_(std::move(global_ranks)),
      slots_(global_ranks_.size()),
      come_(std::make_unique<std::atomic<bool>[]>(global_ranks_.size())) {}

std::int64_t GroupCall::find_disagreement(std::int64_t coord, const CallSlot& slot) const {
  for (std::size_t other = 0; other < slots_.size(); ++other) {
    const auto& descriptor = slots_[other].descriptor;
    if (!descriptor) continue;
    if (!agree(*slot.descriptor, coord, *descriptor, static_cast<std::int64_t>(other))) {
      return static_cast<std::int64_t>(other);
    }
    // All that have come agree with each other; only the parts of an all_to_all differ by pair.
    if (slot.descriptor->op != Collective::kAllToAll) break;
  }
  return -1;
}

bool GroupCall::add(std::int64_t coord, CallSlot slot) {
  slots_[static_cast<std::size_t>(coord)] = std::move(slot);
  come_[static_cast<std::size_t>(coord)].store(true, std::memory_order_release);
  return ++num_come_ == static_cast<std::int64_t>(slots_.size());
}

void GroupCall::plan() {
  const Descriptor& d = *slots_[0].descriptor;
  if (d.op != Collective::kBarrier) {
    std::vector<CallParty> parties;
    parties.reserve(slots_.size());
    for (CallSlot& slot : slots_) {
      parties.push_back({.in = static_cast<const std::byte*>(slot.in.const_data_ptr()),
                         .out = static_cast<std::byte*>(slot.out.mutable_data_ptr()),
                         .send_counts = std::move(slot.send_counts),
                         .recv_counts = std::move(slot.recv_counts)});
    }
    work_ = CallWork(d.op, d.reduce, d.dtype, d.peer, d.numel, std::move(parties));
  }
  if (work_.num_blocks() == 0) complete_.store(true, std::memory_order_release);
  ready_.store(true, std::memory_order_release);
}

void GroupCall::execute(ThreadWorld& world, const GroupCall* enough) {
  num_running_.fetch_add(1, std::memory_order_seq_cst);
  bool completes = false;
  while (!cancelled_.load(std::memory_order_seq_cst) && !world.aborted() &&
         (enough == nullptr || !enough->complete())) {
    const std::int64_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
    if (block >= work_.num_blocks()) break;
    work_.run(block);
    // Release: what was written is seen by whoever sees the call complete.
    completes = blocks_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == work_.num_blocks();
  }
  if (completes) complete_.store(true, std::memory_order_release);
  num_running_.fetch_sub(1, std::memory_order_seq_cst);
  if (completes) world.notify(global_ranks_);
}

void GroupCall::release(std::int64_t coord) {
  CallSlot& slot = slots_[static_cast<std::size_t>(coord)];
  slot.in = at::Tensor();
  slot.out = at::Tensor();
}

void GroupCall::cancel() noexcept {
  cancelled_.store(true, std::memory_order_seq_cst);
  while (num_running_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace sx::detail
