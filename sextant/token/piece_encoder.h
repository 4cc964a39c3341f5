#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/bpe.h"
#include "sextant/token/piece_cache.h"
#include "sextant/token/piece_key.h"
#include "sextant/token/split_rule.h"
#include "sextant/token/token_id.h"

namespace sx {

/// Pieces that are one token as a whole. Immutable after it is filled; const calls are thread-safe.
class TokenTable {
 public:
  /// `tokens`: (bytes, id), bytes not empty and all different.
  explicit TokenTable(const std::vector<std::pair<std::string_view, TokenId>>& tokens);

  static constexpr TokenId kNone = 0xffffffff;
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash >> shift_]); }
  TokenId find_short(const PieceKey& key, std::uint64_t hash) const {
    for (std::size_t slot = hash >> shift_; slots_[slot].id != kNone;
         slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return slots_[slot].id;
    }
    return kNone;
  }
  TokenId find_long(std::string_view piece) const;
  TokenId find(std::string_view piece) const {
    if (piece.size() > PieceKey::kMaxBytes) return find_long(piece);
    const PieceKey key = piece_key(piece);
    return find_short(key, key.hash());
  }

 private:
  struct Slot {
    PieceKey key;
    TokenId id = kNone;
    std::uint32_t unused = 0;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return hash_bytes(bytes); }
  };
  std::vector<Slot> slots_;
  unsigned shift_ = 63;
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> long_tokens_;
};

/// What byte-level BPE needs to turn pieces into ids: shared by all threads.
struct ByteBpe {
  BpeMerger merger;
  TokenTable whole;  ///< pieces that need no merging, with their token
};

/// Turns segments into ids by a split rule and a ByteBpe: one thread's memory, with caches of
/// pieces met before. Gives the same ids for every number of slots.
class PieceEncoder {
 public:
  /// `bpe` outlives the encoder. `cache_slots` as PieceCache.
  PieceEncoder(const ByteBpe& bpe, const SplitRule& rule, std::size_t cache_slots);

  /// Appends the ids of `segment`. Errors: those of PieceSplitter::start.
  Result<void> encode(std::string_view segment, std::vector<TokenId>& out);
  /// Appends the ids of one piece.
  void encode_piece(std::string_view piece, std::vector<TokenId>& out);

  PieceSplitter& splitter() { return splitter_; }
  std::uint64_t cache_hits() const { return hits_; }
  std::uint64_t cache_misses() const { return misses_; }

 private:
  static constexpr std::size_t kBatch = 256;
  struct Hashed {
    PieceKey key;
    std::uint64_t hash;
  };
  void encode_batch(std::string_view bytes, std::size_t safe, std::size_t count,
                    std::vector<TokenId>& out);
  void encode_new_short(std::string_view piece, const Hashed& hashed, std::vector<TokenId>& out);
  void encode_long(std::string_view piece, std::vector<TokenId>& out);

  const ByteBpe& bpe_;
  PieceSplitter splitter_;
  PieceCache cache_;
  LongPieceCache long_cache_;
  BpeMerger::Scratch scratch_;
  std::vector<std::uint32_t> ends_;
  std::vector<Hashed> hashed_;
  std::vector<const PieceCache::Slot*> slots_;  // of the batch, as far as the cache knew them
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace sx
