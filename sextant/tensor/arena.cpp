#include "sextant/tensor/arena.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"
#include "sextant/tensor/storage.h"

namespace sx {

const char* to_string(MemoryClass what) {
  switch (what) {
    case MemoryClass::kParams: return "params";
    case MemoryClass::kGrads: return "grads";
    case MemoryClass::kOptimizer: return "optimizer";
    case MemoryClass::kTransient: return "transient";
  }
  return "?";
}

struct Lease::Block {
  c10::DataPtr memory;
  void* data = nullptr;  ///< aligned, inside `memory`
  std::int64_t bytes = 0;
  MemoryClass purpose = MemoryClass::kTransient;
  std::string what;
  std::uint64_t id = 0;
};

namespace {

constexpr std::int64_t kOverhang = kBlockBytes / 2;  // LibTorch aligns to 64 bytes

void* aligned(void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return reinterpret_cast<void*>((address + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
}

MemoryCategory memory_category(MemoryClass purpose) {
  switch (purpose) {
    case MemoryClass::kParams: return MemoryCategory::kParams;
    case MemoryClass::kGrads: return MemoryCategory::kMainGrads;
    case MemoryClass::kOptimizer: return MemoryCategory::kMaster;
    case MemoryClass::kTransient: break;
  }
  return MemoryCategory::kCommBuffers;
}

bool is_poison(const void* data, std::int64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) {
    if (at[i] != ((i & 1) != 0 ? 0x7f : 0xf8)) return false;
  }
  return true;
}

}  // namespace

Lease::Lease(std::shared_ptr<Arena> arena, Block* block)
    : arena_(std::move(arena)), block_(block) {}

Lease::Lease(Lease&& other) noexcept
    : arena_(std::move(other.arena_)), block_(std::exchange(other.block_, nullptr)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  reset();
  arena_ = std::move(other.arena_);
  block_ = std::exchange(other.block_, nullptr);
  return *this;
}

Lease::~Lease() { reset(); }

void Lease::reset() {
  if (block_ != nullptr) arena_->give_back(std::exchange(block_, nullptr));
  arena_.reset();
}

void* Lease::data() const { return block_ == nullptr ? nullptr : block_->data; }

std::int64_t Lease::bytes() const { return block_ == nullptr ? 0 : block_->bytes; }

at::Tensor Lease::view(c10::ScalarType dtype, std::int64_t offset, std::int64_t numel) const {
  const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
  SX_CHECK(offset >= 0 && numel >= 0 && (offset + numel) * item <= bytes(),
           "elements [{}, {}) of {} bytes in a lease of {} bytes", offset, offset + numel, item,
           bytes());
  return at::from_blob(static_cast<std::byte*>(data()) + offset * item, {numel},
                       at::TensorOptions().dtype(dtype));
}

std::shared_ptr<Arena> Arena::make(ArenaDebug debug) {
  return std::shared_ptr<Arena>(new Arena(debug));
}

Arena::Arena(ArenaDebug debug) : debug_(debug), random_(debug.seed, "test.arena_delay") {}

Arena::~Arena() = default;

Lease Arena::acquire(std::int64_t numel, c10::ScalarType dtype, MemoryClass purpose,
                     std::string what, std::optional<MemoryCategory> category) {
  return acquire(numel * static_cast<std::int64_t>(c10::elementSize(dtype)), purpose,
                 std::move(what), category);
}

Lease Arena::acquire(std::int64_t bytes, MemoryClass purpose, std::string what,
                     std::optional<MemoryCategory> category) {
  const MemoryCategory counted = category.value_or(memory_category(purpose));
  SX_CHECK(bytes >= 0, "{} bytes asked for {}", bytes, what);
  bytes = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  if (debug_.max_delay > 0) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(debug_.max_delay * random_.uniform(draws_++)));
  }
  if (bytes == 0) return {};
  const auto index = static_cast<std::size_t>(purpose);
  stats_.live[index] += bytes;
  stats_.peak[index] = std::max(stats_.peak[index], stats_.live[index]);
  stats_.live_total += bytes;
  stats_.peak_total = std::max(stats_.peak_total, stats_.live_total);
  most_leased_ = std::max(most_leased_, stats_.live_total);
  ++stats_.leases;

  std::unique_ptr<Lease::Block> block;
  if (const auto kept = kept_.find(bytes); kept != kept_.end()) {
    block = std::move(kept->second);
    kept_.erase(kept);
    if (debug_.check) {
      SX_CHECK(is_poison(block->data, bytes), "{} was written after its lease had ended",
               block->what);
    }
    retag_memory(block->memory.get(), counted);
  } else {
    // The largest first: few blocks go, and none that the plan of a step needs again at its peak.
    while (!kept_.empty() && stats_.held + bytes > most_leased_) drop(std::prev(kept_.end()));
    block = std::make_unique<Lease::Block>();
    const MemoryScope scope(counted);
    block->memory = c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(bytes + kOverhang));
    block->data = aligned(block->memory.get());
    block->bytes = bytes;
    stats_.held += bytes;
    stats_.peak_held = std::max(stats_.peak_held, stats_.held);
    ++stats_.allocations;
  }
  if (debug_.poison) poison(block->data, bytes);
  block->purpose = purpose;
  block->what = std::move(what);
  block->id = next_id_++;
  Lease::Block* raw = block.get();
  live_.emplace(raw->id, std::move(block));
  return Lease(shared_from_this(), raw);
}

void Arena::give_back(Lease::Block* block) {
  const auto at = live_.find(block->id);
  std::unique_ptr<Lease::Block> owned = std::move(at->second);
  live_.erase(at);
  stats_.live[static_cast<std::size_t>(owned->purpose)] -= owned->bytes;
  stats_.live_total -= owned->bytes;
  if (debug_.poison || debug_.check) poison(owned->data, owned->bytes);
  const std::int64_t bytes = owned->bytes;
  retag_memory(owned->memory.get(), MemoryCategory::kSpare);
  kept_.emplace(bytes, std::move(owned));
}

void Arena::drop(std::multimap<std::int64_t, std::unique_ptr<Lease::Block>>::iterator kept) {
  stats_.held -= kept->first;
  kept_.erase(kept);
}

void Arena::reset_peaks() {
  stats_.peak = stats_.live;
  stats_.peak_total = stats_.live_total;
  stats_.peak_held = stats_.held;
}

void Arena::trim() {
  while (!kept_.empty()) drop(std::prev(kept_.end()));
  most_leased_ = stats_.live_total;
}

std::vector<std::string> Arena::live_leases() const {
  std::vector<std::string> out;
  for (const auto& [id, block] : live_) out.push_back(block->what);
  return out;
}

}  // namespace sx
