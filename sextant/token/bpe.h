#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// One line of a merge list: `left` and `right` side by side become `result`.
struct BpeMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

/// Merging of one piece: among adjacent pairs that have a rank, the pair of the lowest rank is
/// joined, the leftmost on equality, until no pair is left. Ranks are those of the joined token (a
/// rank vocabulary: every pair whose concatenation is a token) or line numbers of a merge list
/// (only the pairs listed). Source: Sennrich et al., "Neural machine translation of rare words with
/// subword units", ACL 2016; byte level and rank order as in GPT-2 and tiktoken; merge lists as in
/// Hugging Face tokenizers.
///
/// Threads: const calls are safe; each thread brings its own `Scratch`.
class BpeMerger {
 public:
  struct Part {
    TokenId id;
    std::uint32_t rank;  // of the pair with the next part; kNoRank = none
    std::uint32_t prev;
    std::uint32_t next;
  };
  struct HeapEntry {
    std::uint32_t rank;
    std::uint32_t pos;
    friend bool operator<(const HeapEntry& a, const HeapEntry& b) {
      return a.rank != b.rank ? a.rank > b.rank
                              : a.pos > b.pos;  // smallest on top of std::push_heap
    }
  };
  struct Scratch {
    std::vector<Part> parts;
    std::vector<HeapEntry> heap;
    std::vector<TokenId> ids;
  };

  static constexpr std::size_t kMaxMerges = (std::size_t{1} << 22) - 2;

  explicit BpeMerger(const Vocab& vocab);
  /// `byte_ids`: the token of each byte, for `merge`; empty when only `merge_ids` is called. A pair
  /// listed twice has the later rank. Ids are below 2^21, merges at most kMaxMerges.
  BpeMerger(std::span<const TokenId> byte_ids, std::span<const BpeMerge> merges);

  /// Appends the ids of `piece` to `out`. Cost: quadratic below 64 bytes, O(n log n) above.
  void merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  /// The same from any start: `ids` is changed.
  void merge_ids(std::span<TokenId> ids, Scratch& scratch, std::vector<TokenId>& out) const;

  /// Rank of the pair, or kNoRank; for a rank vocabulary it is the id that the pair joins to.
  std::uint32_t pair_rank(TokenId left, TokenId right) const;
  /// Token that the pair of this rank becomes.
  TokenId result_of(std::uint32_t rank) const {
    return results_.empty() ? TokenId{rank} : results_[rank];
  }
  std::size_t num_pairs() const { return num_pairs_; }

  static constexpr std::uint32_t kNoRank = 0xffffffff;

 private:
  // left 21 bits, right 21 bits, rank 22 bits in one word; open addressing.
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  void build_slots(std::span<const std::uint64_t> pairs);
  void build_byte_pairs();
  void merge_short(TokenId* ids, std::uint32_t* ranks, std::size_t count,
                   std::vector<TokenId>& out) const;
  void merge_long(std::span<const TokenId> ids, Scratch& scratch, std::vector<TokenId>& out) const;

  std::vector<std::uint64_t> slots_;
  unsigned shift_ = 63;
  std::size_t num_pairs_ = 0;
  std::vector<TokenId> results_;  // by rank; empty: the rank itself
  TokenId byte_ids_[256] = {};
  std::vector<std::uint32_t> byte_pairs_;  // rank by (left byte << 8 | right byte)
};

}  // namespace sx
