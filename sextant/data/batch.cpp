#include "sextant/data/batch.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "sextant/base/check.h"

namespace sx {

namespace {

constexpr std::size_t kAlignment = 128;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

struct HostPool::State {
  Allocate allocate;
  Release release;
  mutable std::mutex mutex;
  std::vector<std::pair<std::size_t, std::byte*>> free;
  std::size_t num_allocated = 0;
};

std::shared_ptr<HostPool> HostPool::make(Allocate allocate, Release release) {
  auto state = std::make_unique<State>();
  if (!allocate) {
    allocate = [](std::size_t bytes) {
      return ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
    };
    release = [](void* block) { ::operator delete (block, std::align_val_t{kAlignment}); };
  }
  state->allocate = std::move(allocate);
  state->release = std::move(release);
  return std::shared_ptr<HostPool>(new HostPool(std::move(state)));
}

HostPool::HostPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

HostPool::~HostPool() {
  for (const auto& [size, block] : state_->free) state_->release(block);
}

HostPool::Block HostPool::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1));
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = std::find_if(state_->free.begin(), state_->free.end(),
                                    [&](const auto& entry) { return entry.first == size; });
    if (found != state_->free.end()) {
      block = found->second;
      state_->free.erase(found);
    } else {
      ++state_->num_allocated;
    }
  }
  if (block == nullptr) block = static_cast<std::byte*>(state_->allocate(size));
  if (block == nullptr) throw std::bad_alloc();
  return Block(block, [pool = shared_from_this(), size](std::byte* freed) {
    const std::lock_guard lock(pool->state_->mutex);
    pool->state_->free.emplace_back(size, freed);
  });
}

std::size_t HostPool::num_allocated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_allocated;
}

Batch::Batch(HostPool& pool, std::int64_t num_rows, std::int64_t seq_len)
    : num_documents(static_cast<std::size_t>(num_rows)),
      keys(static_cast<std::size_t>(num_rows)),
      num_rows_(num_rows),
      seq_len_(seq_len) {
  SX_CHECK(num_rows > 0 && seq_len > 0, "a batch of {} rows of {} tokens", num_rows, seq_len);
  const std::size_t plain = round_up(count() * sizeof(std::int32_t));
  const std::size_t cu = round_up(cu_count() * sizeof(std::int32_t));
  block_ = pool.take(4 * plain + cu + round_up(count()));
  std::byte* at = block_.get();
  const auto carve = [&](std::size_t bytes) { return std::exchange(at, at + bytes); };
  tokens_ = reinterpret_cast<std::int32_t*>(carve(plain));
  targets_ = reinterpret_cast<std::int32_t*>(carve(plain));
  positions_ = reinterpret_cast<std::int32_t*>(carve(plain));
  document_ids_ = reinterpret_cast<std::int32_t*>(carve(plain));
  cu_seqlens_ = reinterpret_cast<std::int32_t*>(carve(cu));
  loss_mask_ = reinterpret_cast<std::uint8_t*>(carve(round_up(count())));
}

}  // namespace sx
