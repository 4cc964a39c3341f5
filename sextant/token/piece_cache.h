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

/// Remembers the ids of pieces of at most 15 bytes with at most 3 ids: two places of 32 bytes to a
/// cache line, the newer first. Never changes a result. One per thread.
class PieceCache {
 public:
  static constexpr std::size_t kMaxIds = 3;
  struct Slot {
    PieceKey key;  // all zero = free
    TokenId ids[kMaxIds] = {};
    std::uint32_t count = 0;
  };

  /// `slots` is rounded up to a power of two, at least 2; 0 = no cache.
  explicit PieceCache(std::size_t slots) {
    if (slots == 0) return;
    const std::size_t lines = std::bit_ceil(std::max<std::size_t>(slots, 2)) / 2;
    lines_ = std::vector<Line>(lines);
    mask_ = lines - 1;
  }

  bool empty() const { return lines_.empty(); }
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&lines_[hash & mask_]); }
  /// The slot that holds `key`, or null; it lives until the next `put`.
  const Slot* find(const PieceKey& key, std::uint64_t hash) const {
    const Line& line = lines_[hash & mask_];
    if (line.slots[0].key == key) return &line.slots[0];
    if (line.slots[1].key == key) return &line.slots[1];
    return nullptr;
  }
  /// `ids` has 1 to kMaxIds elements.
  void put(const PieceKey& key, std::uint64_t hash, std::span<const TokenId> ids) {
    Line& line = lines_[hash & mask_];
    line.slots[1] = line.slots[0];
    Slot& slot = line.slots[0];
    slot.key = key;
    slot.count = static_cast<std::uint32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), slot.ids);
  }

 private:
  struct alignas(64) Line {
    Slot slots[2];
  };
  std::vector<Line> lines_;
  std::uint64_t mask_ = 0;
};

/// Remembers the ids of longer pieces, and of short ones with more ids. Forgets everything when its
/// store is full. Never changes a result. One per thread.
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
  std::size_t store_limit_ = 0;
};

}  // namespace sx
