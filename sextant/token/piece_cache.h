#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sextant/token/token_id.h"

namespace sx {

/// Remembers the ids of short pieces that were met before: direct-mapped, 32 bytes a slot, pieces
/// of at most 15 bytes with at most 3 ids. Never changes a result; a newer piece replaces the older
/// one of its slot. One per thread.
class PieceCache {
 public:
  static constexpr std::size_t kMaxBytes = 15;
  static constexpr std::size_t kMaxIds = 3;

  /// `slots` is rounded up to a power of two; 0 = no cache.
  explicit PieceCache(std::size_t slots);

  /// Ids of `piece`, or an empty span. The span lives until the next `put`.
  std::span<const TokenId> find(std::string_view piece);
  /// Remembers `ids` if piece and ids are short enough.
  void put(std::string_view piece, std::span<const TokenId> ids);

  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  struct Slot {
    std::uint64_t key[2] = {0, 0};  // bytes, zero-filled; the last byte is the length (0 = free)
    TokenId ids[kMaxIds] = {};
    std::uint32_t count = 0;
  };
  std::size_t slot_of(const std::uint64_t (&key)[2]) const;

  std::vector<Slot> slots_;
  unsigned shift_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace sx
