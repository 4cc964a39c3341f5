#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sx {

/// Which keys a query may see inside its document: those at positions p - left to p + right, p
/// being the query's own.
struct AttentionMask {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;
  std::int64_t left = kUnlimited;
  std::int64_t right = 0;

  static AttentionMask causal() { return {}; }
  static AttentionMask full() { return {kUnlimited, kUnlimited}; }
  /// The last `size` keys, the query's own included. Requires size >= 1.
  static AttentionMask window(std::int64_t size);
  bool is_causal() const { return left >= kUnlimited && right == 0; }
  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;
};

/// Tokens of one document that lie next to each other both in the document and in the memory of
/// whoever holds them.
struct SeqPiece {
  std::int64_t document = 0;
  std::int64_t position = 0;  ///< of the first token in its document
  std::int64_t index = 0;     ///< of the first token in memory
  std::int64_t length = 0;
  friend bool operator==(const SeqPiece&, const SeqPiece&) = default;
};

/// A rectangle of queries and keys that is one call of a kernel.
struct AttentionBlock {
  enum class Kind : std::uint8_t {
    kFull,    ///< every query sees every key
    kCausal,  ///< as many keys as queries; query i sees keys 0..i
    kBand,    ///< query i sees the keys j with -left <= j - i + shift <= right, at least one
  };
  std::int64_t query = 0;  ///< index of the first query in memory
  std::int64_t num_queries = 0;
  std::int64_t key = 0;
  std::int64_t num_keys = 0;
  Kind kind = Kind::kFull;
  std::int64_t shift = 0;  ///< position of the first key less that of the first query
  friend bool operator==(const AttentionBlock&, const AttentionBlock&) = default;
};

/// Queries of a band block at most: its mask has that many rows, whatever the sequence's length.
inline constexpr std::int64_t kBandQueries = 256;

/// The visible pairs of queries and keys as rectangles, each pair in exactly one. What is wholly
/// masked does not appear, every query of a block sees a key of it, and no block crosses documents.
/// Only windows give kBand blocks; their sizes are at most kBandQueries by kBandQueries + left +
/// right, and less where the window is wide. Requires both lists in ascending order of (document,
/// position).
std::vector<AttentionBlock> visible_blocks(std::span<const SeqPiece> queries,
                                           std::span<const SeqPiece> keys,
                                           const AttentionMask& mask);

/// Whether there is any; cheaper.
bool any_visible(std::span<const SeqPiece> queries, std::span<const SeqPiece> keys,
                 const AttentionMask& mask);

/// Pairs of a query and a key that it sees, over all blocks: the work.
std::int64_t count_pairs(std::span<const AttentionBlock> blocks, const AttentionMask& mask);

}  // namespace sx
