#include "sextant/text/html_arena.h"

#include <lexbor/core/base.h>
#include <lexbor/core/lexbor.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace sx {

struct alignas(16) HtmlArena::Header {
  std::size_t size;
  std::size_t large_index;  // into large_, or kSmall
};

namespace {

constexpr std::size_t kSmall = SIZE_MAX;
constexpr std::size_t kArenaBlockBytes = std::size_t{256} << 10;
constexpr std::size_t kLargeBytes = std::size_t{64} << 10;
constexpr std::size_t kKeptBlocks = 64;  // 16 MiB stay for the next page

/// lexbor's memory functions take no context, so the arena in force is a fact of the thread.
HtmlArena*& current_arena() {
  thread_local HtmlArena* arena = nullptr;
  return arena;
}

void* arena_malloc(std::size_t bytes) {
  HtmlArena* arena = current_arena();
  return arena ? arena->allocate(bytes) : std::malloc(bytes);
}
void* arena_calloc(std::size_t count, std::size_t bytes) {
  HtmlArena* arena = current_arena();
  if (arena == nullptr) return std::calloc(count, bytes);
  if (bytes != 0 && count > SIZE_MAX / 2 / bytes) return nullptr;
  void* piece = arena->allocate(count * bytes);
  if (piece) std::memset(piece, 0, count * bytes);
  return piece;
}
void* arena_realloc(void* piece, std::size_t bytes) {
  HtmlArena* arena = current_arena();
  return arena ? arena->reallocate(piece, bytes) : std::realloc(piece, bytes);
}
void arena_free(void* piece) {
  if (current_arena() == nullptr) std::free(piece);
}

void install_memory_functions() {
  static std::once_flag once;
  std::call_once(
      once, [] { lexbor_memory_setup(arena_malloc, arena_realloc, arena_calloc, arena_free); });
}

std::size_t round_up(std::size_t bytes) { return (bytes + 15) & ~std::size_t{15}; }

}  // namespace

HtmlArena::HtmlArena() { install_memory_functions(); }
HtmlArena::~HtmlArena() {
  for (Header* header : large_) std::free(header);
}

void* HtmlArena::allocate(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4) return nullptr;
  const std::size_t need = sizeof(Header) + round_up(bytes);
  if (bytes >= kLargeBytes) {
    auto* header = static_cast<Header*>(std::malloc(need));
    if (header == nullptr) return nullptr;
    *header = Header{need - sizeof(Header), large_.size()};
    large_.push_back(header);
    used_ += need;
    return header + 1;
  }
  if (block_index_ >= blocks_.size() || block_pos_ + need > blocks_[block_index_].size) {
    if (block_index_ < blocks_.size()) ++block_index_;
    block_pos_ = 0;
    if (block_index_ >= blocks_.size()) {
      Block block;
      block.data.reset(new (std::nothrow) std::byte[kArenaBlockBytes]);
      if (!block.data) return nullptr;
      block.size = kArenaBlockBytes;
      blocks_.push_back(std::move(block));
    }
  }
  auto* header = reinterpret_cast<Header*>(blocks_[block_index_].data.get() + block_pos_);
  *header = Header{round_up(bytes), kSmall};
  block_pos_ += need;
  used_ += need;
  return header + 1;
}

void* HtmlArena::reallocate(void* piece, std::size_t bytes) {
  if (piece == nullptr) return allocate(bytes);
  Header* header = static_cast<Header*>(piece) - 1;
  if (bytes <= header->size) return piece;
  if (header->large_index == kSmall) {
    void* moved = allocate(bytes);
    if (moved) std::memcpy(moved, piece, header->size);
    return moved;
  }
  if (bytes > SIZE_MAX / 4) return nullptr;
  const std::size_t index = header->large_index;
  const std::size_t grown =
      round_up(bytes + bytes / 2);  // lexbor grows by constant steps: keep the copies linear
  const std::size_t before = header->size;
  header = static_cast<Header*>(std::realloc(header, sizeof(Header) + grown));
  if (header == nullptr) return nullptr;
  header->size = grown;
  large_[index] = header;
  used_ += grown - before;
  return header + 1;
}

void HtmlArena::reset() {
  for (Header* header : large_) std::free(header);
  large_.clear();
  if (blocks_.size() > kKeptBlocks) blocks_.resize(kKeptBlocks);
  block_index_ = 0;
  block_pos_ = 0;
  used_ = 0;
}

HtmlArena::Scope::Scope(HtmlArena& arena) : outer_(current_arena()) { current_arena() = &arena; }
HtmlArena::Scope::~Scope() { current_arena() = outer_; }

}  // namespace sx
