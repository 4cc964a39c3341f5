#include "sextant/tensor/block_cache.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Memory from the system, huge pages where it has them; nullptr when there is none.
void* map_block(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without it the block is right, only slower
  return data;
}

class BlockCache final : public c10::Allocator {
 public:
  static BlockCache& the_one() {
    // Blocks may be freed while the process ends: never destroyed.
    static auto* cache = new BlockCache();
    return *cache;
  }

  void install(std::int64_t keep_bytes) {
    {
      const std::scoped_lock lock(mutex_);
      limit_ = static_cast<std::size_t>(keep_bytes);
      shrink(limit_);
    }
    std::call_once(once_, [this] {
      inner_ = c10::GetCPUAllocator();
      SX_CHECK(inner_->raw_deleter() != nullptr, "the CPU allocator has blocks with a context");
      c10::SetCPUAllocator(this, /*priority=*/1);
    });
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes < kSmallest ? inner_->raw_allocate(bytes) : take(bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  BlockCacheNumbers numbers() {
    const std::scoped_lock lock(mutex_);
    return numbers_;
  }

 private:
  struct Kept {
    void* data;
    std::size_t bytes;
  };
  using ByAge = std::list<Kept>;  // unused for longest first

  BlockCache() = default;

  void* take(std::size_t wanted) {
    const std::size_t bytes = round_up(wanted, wanted >= 2 * kHugePage ? kHugePage : kPage);
    const std::scoped_lock lock(mutex_);
    const auto found = by_size_.lower_bound(bytes);
    if (found != by_size_.end() && found->first <= bytes + bytes / 7) {
      const Kept kept = *found->second;
      by_age_.erase(found->second);
      by_size_.erase(found);
      numbers_.kept_bytes -= static_cast<std::int64_t>(kept.bytes);
      ++numbers_.reuses;
      sizes_.emplace(kept.data, kept.bytes);
      return kept.data;
    }
    void* data = map_block(bytes);
    if (data == nullptr) {
      shrink(0);
      data = map_block(bytes);
    }
    TORCH_CHECK(data != nullptr, "out of memory: ", bytes, " bytes for a tensor, ",
                numbers_.mapped_bytes, " bytes of large blocks in use");
    ++numbers_.maps;
    numbers_.mapped_bytes += static_cast<std::int64_t>(bytes);
    sizes_.emplace(data, bytes);
    return data;
  }

  static void give_back(void* data) {
    if (data == nullptr) return;
    BlockCache& self = the_one();
    if (reinterpret_cast<std::uintptr_t>(data) % kPage != 0 || !self.keep(data)) {
      self.inner_->raw_deallocate(data);
    }
  }

  /// False for a block that is not of this cache.
  bool keep(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto found = sizes_.find(data);
    if (found == sizes_.end()) return false;
    const std::size_t bytes = found->second;
    sizes_.erase(found);
    by_age_.push_back({data, bytes});
    by_size_.emplace(bytes, std::prev(by_age_.end()));
    numbers_.kept_bytes += static_cast<std::int64_t>(bytes);
    shrink(limit_);
    return true;
  }

  void shrink(std::size_t limit) {
    while (static_cast<std::size_t>(numbers_.kept_bytes) > limit) {
      const auto oldest = by_age_.begin();
      auto [first, last] = by_size_.equal_range(oldest->bytes);
      while (first != last && first->second != oldest) ++first;
      by_size_.erase(first);
      munmap(oldest->data, oldest->bytes);
      numbers_.kept_bytes -= static_cast<std::int64_t>(oldest->bytes);
      numbers_.mapped_bytes -= static_cast<std::int64_t>(oldest->bytes);
      by_age_.erase(oldest);
    }
  }

  std::once_flag once_;
  c10::Allocator* inner_ = nullptr;
  std::mutex mutex_;
  std::size_t limit_ = 0;
  BlockCacheNumbers numbers_;
  std::unordered_map<void*, std::size_t> sizes_;  // of blocks in use
  ByAge by_age_;
  std::multimap<std::size_t, ByAge::iterator> by_size_;
};

}  // namespace

void install_block_cache(std::int64_t keep_bytes) {
  SX_CHECK(keep_bytes >= 0, "keep_bytes = {}", keep_bytes);
  BlockCache::the_one().install(keep_bytes);
}

BlockCacheNumbers block_cache_numbers() { return BlockCache::the_one().numbers(); }

}  // namespace sx
