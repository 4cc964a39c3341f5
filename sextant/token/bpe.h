#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// Merging of one piece by a rank vocabulary: among adjacent parts whose concatenation is a token,
/// the pair of the lowest rank is joined, the leftmost on equality, until no pair is left. Starts
/// from single bytes. Source: Sennrich et al., "Neural machine translation of rare words with
/// subword units", ACL 2016; byte level and rank order as in GPT-2 and tiktoken.
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
  };

  explicit BpeMerger(const Vocab& vocab);

  /// Appends the ids of `piece` to `out`. Cost: quadratic below 64 bytes, O(n log n) above.
  void merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  /// The token that `left` and `right` join to (= its rank), or kNoRank.
  std::uint32_t pair_rank(TokenId left, TokenId right) const;
  std::size_t num_pairs() const { return num_pairs_; }

  static constexpr std::uint32_t kNoRank = 0xffffffff;

 private:
  // left 21 bits, right 21 bits, rank 22 bits in one word; open addressing.
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  void build_pairs(const Vocab& vocab);
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::vector<std::uint64_t> slots_;
  unsigned shift_ = 63;
  std::size_t num_pairs_ = 0;
  TokenId byte_ids_[256] = {};
};

}  // namespace sx
