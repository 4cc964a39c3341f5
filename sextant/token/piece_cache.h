#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sextant/token/piece_key.h"
#include "sextant/token/token_id.h"

namespace sx {

/// Remembers the ids of pieces of at most 15 bytes: two places of 32 bytes to a cache line, the
/// newer first; up to 3 ids lie in the place, more in a store beside it. Starts small and doubles
/// while new pieces come, up to the number of slots it was given. Never changes a result. One per
/// thread.
class PieceCache {
 public:
  static constexpr std::size_t kInline = 3;
  static constexpr std::size_t kFirstSlots = 16384;
  struct Slot {
    PieceKey key;               // all zero = free
    TokenId ids[kInline] = {};  // with more than kInline ids: ids[0] is their place in the store
    std::uint32_t count = 0;
  };

  /// `max_slots` is rounded up to a power of two, at least 2; 0 = no cache.
  explicit PieceCache(std::size_t max_slots);

  bool empty() const { return lines_.empty(); }
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&lines_[hash & mask_]); }
  /// The slot that holds `key`, or null; it lives until the next `put`.
  const Slot* find(const PieceKey& key, std::uint64_t hash) const {
    const Line& line = lines_[hash & mask_];
    if (line.slots[0].key == key) return &line.slots[0];
    if (line.slots[1].key == key) return &line.slots[1];
    return nullptr;
  }
  /// Ids of a slot that `find` gave.
  std::span<const TokenId> ids(const Slot& slot) const {
    return {slot.count <= kInline ? slot.ids : store_.data() + slot.ids[0], slot.count};
  }
  /// Remembers 1 to 15 ids.
  void put(const PieceKey& key, std::uint64_t hash, std::span<const TokenId> ids);
  std::size_t slots() const { return lines_.size() * 2; }

 private:
  struct alignas(64) Line {
    Slot slots[2];
  };
  void resize(std::size_t lines);
  void place(const Slot& slot, std::uint64_t hash);

  std::vector<Line> lines_;
  std::uint64_t mask_ = 0;
  std::size_t max_lines_ = 0;
  std::size_t used_ = 0;  // slots that are not free
  std::vector<TokenId> store_;
};

/// Remembers the ids of longer pieces. Forgets everything when its store is full, and doubles then
/// up to the number of slots it was given. Never changes a result. One per thread.
class LongPieceCache {
 public:
  static constexpr std::size_t kMaxBytes = 255;

  /// `slots` is rounded up to a power of two; 0 = no cache.
  explicit LongPieceCache(std::size_t slots);

  bool empty() const { return slots_.empty(); }
  /// Ids of `piece`, or an empty span; it lives until the next `put`.
  std::span<const TokenId> find(std::string_view piece, std::uint64_t hash) const;
  void put(std::string_view piece, std::uint64_t hash, std::span<const TokenId> ids);

 private:
  struct Slot {
    std::uint32_t check = 0;  // high half of the hash
    std::uint32_t at = 0;     // in ids_: the piece's bytes, filled to whole ids, then the ids
    std::uint16_t size = 0;   // of the piece; 0 = free
    std::uint16_t count = 0;
  };
  std::vector<Slot> slots_;
  std::vector<TokenId> store_;
  std::size_t max_slots_ = 0;
  std::size_t store_limit_ = 0;
};

}  // namespace sx
