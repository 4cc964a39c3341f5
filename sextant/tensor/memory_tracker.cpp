#include "sextant/tensor/memory_tracker.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// What a thread's allocations count for.
struct ThreadState {
  std::shared_ptr<MemoryCounter> counter;
  MemoryCategory category = MemoryCategory::kActivations;
};

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

bool is_state(int category) {
  return category != static_cast<int>(MemoryCategory::kActivations) &&
         category != static_cast<int>(MemoryCategory::kSpare) &&
         category != static_cast<int>(MemoryCategory::kInputs);
}

}  // namespace

const char* to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kActivations: return "activations";
    case MemoryCategory::kParams: return "params";
    case MemoryCategory::kMaster: return "master";
    case MemoryCategory::kMoments: return "moments";
    case MemoryCategory::kMainGrads: return "main_grads";
    case MemoryCategory::kGathered: return "gathered";
    case MemoryCategory::kGradUnsharded: return "grad_unsharded";
    case MemoryCategory::kCommBuffers: return "comm_buffers";
    case MemoryCategory::kSpare: return "spare";
    case MemoryCategory::kInputs: return "inputs";
  }
  return "?";
}

MemoryNumbers MemoryCounter::read() const {
  MemoryNumbers numbers;
  for (std::size_t i = 0; i < live_.size(); ++i) {
    numbers.live[i] = live_[i].load();
    numbers.live_total += numbers.live[i];
    numbers.at_peak[i] = at_peak_[i].load();
  }
  numbers.peak_total = peak_total_.load();
  numbers.peak_states = peak_states_.load();
  numbers.allocations = allocations_.load();
  return numbers;
}

void MemoryCounter::take_peaks() {
  std::int64_t total = 0, states = 0;
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    const std::int64_t bytes = live_[static_cast<std::size_t>(i)].load(std::memory_order_relaxed);
    total += bytes;
    if (is_state(i)) states += bytes;
  }
  if (states > peak_states_.load(std::memory_order_relaxed)) peak_states_ = states;
  if (total <= peak_total_.load(std::memory_order_relaxed)) return;
  peak_total_ = total;
  for (std::size_t i = 0; i < live_.size(); ++i) at_peak_[i] = live_[i].load();
}

void MemoryCounter::reset_peaks() {
  peak_total_ = 0;
  peak_states_ = 0;
  take_peaks();
}

void MemoryCounter::add(MemoryCategory category, std::int64_t bytes) {
  live_[static_cast<std::size_t>(category)] += bytes;
  take_peaks();
}

void MemoryCounter::remove(MemoryCategory category, std::int64_t bytes) {
  live_[static_cast<std::size_t>(category)] -= bytes;
}

/// Who asked for which block, by address. Many small tables, so that ranks seldom meet.
class MemoryBooks {
 public:
  struct Entry {
    std::shared_ptr<MemoryCounter> counter;
    std::int64_t bytes = 0;
    MemoryCategory category = MemoryCategory::kActivations;
  };

  void write(const void* data, std::size_t bytes) {
    const ThreadState& state = thread_state();
    if (data == nullptr || state.counter == nullptr) return;
    Entry entry{state.counter, static_cast<std::int64_t>(bytes), state.category};
    ++entry.counter->allocations_;
    entry.counter->add(entry.category, entry.bytes);
    Page& page = page_of(data);
    const std::scoped_lock lock(page.mutex);
    page.entries[data] = std::move(entry);
  }

  void erase(const void* data) {
    Page& page = page_of(data);
    Entry entry;
    {
      const std::scoped_lock lock(page.mutex);
      const auto found = page.entries.find(data);
      if (found == page.entries.end()) return;
      entry = std::move(found->second);
      page.entries.erase(found);
    }
    entry.counter->remove(entry.category, entry.bytes);
  }

  void retag(const void* data, MemoryCategory category) {
    Page& page = page_of(data);
    const std::scoped_lock lock(page.mutex);
    const auto found = page.entries.find(data);
    if (found == page.entries.end() || found->second.category == category) return;
    Entry& entry = found->second;
    entry.counter->remove(entry.category, entry.bytes);
    entry.counter->add(category, entry.bytes);
    entry.category = category;
  }

 private:
  struct Page {
    std::mutex mutex;
    std::unordered_map<const void*, Entry> entries;
  };
  Page& page_of(const void* data) {
    // Blocks are 64-byte aligned or coarser.
    const auto bits = reinterpret_cast<std::uintptr_t>(data) >> 6;
    return pages_[(bits ^ (bits >> 6)) % pages_.size()];
  }
  std::array<Page, 64> pages_;
};

namespace {

class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& the_one() {
    // Blocks may be freed while the process ends: never destroyed.
    static auto* allocator = new CountingAllocator();
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = inner_->raw_allocate(bytes);
    books_.write(data, bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
  void install() {
    std::call_once(once_, [this] {
      inner_ = c10::GetCPUAllocator();
      SX_CHECK(inner_->raw_deleter() != nullptr, "the CPU allocator has blocks with a context");
      c10::SetCPUAllocator(this, /*priority=*/1);
    });
  }
  MemoryBooks& books() { return books_; }

 private:
  CountingAllocator() = default;
  static void give_back(void* data) {
    if (data == nullptr) return;
    CountingAllocator& self = the_one();
    self.books_.erase(data);
    self.inner_->raw_deallocate(data);
  }

  std::once_flag once_;
  c10::Allocator* inner_ = nullptr;
  MemoryBooks books_;
};

}  // namespace

void install_memory_tracker() { CountingAllocator::the_one().install(); }

MemoryAccount::MemoryAccount(std::shared_ptr<MemoryCounter> counter)
    : before_(std::exchange(thread_state().counter, std::move(counter))) {}
MemoryAccount::~MemoryAccount() { thread_state().counter = std::move(before_); }

MemoryScope::MemoryScope(MemoryCategory category)
    : before_(std::exchange(thread_state().category, category)) {}
MemoryScope::~MemoryScope() { thread_state().category = before_; }

void retag_memory(const void* data, MemoryCategory category) {
  if (data != nullptr) CountingAllocator::the_one().books().retag(data, category);
}

}  // namespace sx
