#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sextant/cp/visible_blocks.h"
#include "sextant/mesh/seq_partition.h"

namespace sx {

/// How 16-bit inputs go through a block on CPUs (key parallelism.cp_block_dtype). Blocks are merged
/// in fp32 in both cases; fp32 and fp64 are computed in themselves.
enum class BlockDtype : std::uint8_t {
  kFp32,    ///< promoted block by block: one rounding at the very end
  kNative,  ///< the kernel's own 16-bit results
};

/// Who holds which tokens of a row and who has to see whose: everything about context-parallel
/// attention that follows from lengths alone, the same on every rank. Immutable.
///
/// A row is a list of documents; a batch of rows alike is one plan for tensors [B, T, ...]. A batch
/// of rows with different documents is one row with the documents of all of them.
class CpPlan {
 public:
  /// Lengths >= 0, any degree >= 1; coordinates without tokens are legal.
  CpPlan(SeqPartitionKind kind, std::span<const std::int64_t> documents, std::int64_t degree,
         AttentionMask mask = AttentionMask::causal());

  std::int64_t degree() const { return static_cast<std::int64_t>(pieces_.size()); }
  const AttentionMask& mask() const { return mask_; }
  /// Tokens of the whole row.
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_tokens(std::int64_t coord) const {
    return static_cast<std::int64_t>(tokens_[static_cast<std::size_t>(coord)].size());
  }
  /// The row's tokens that a coordinate holds, in its order: what the batch is cut with.
  const std::vector<std::int64_t>& tokens(std::int64_t coord) const {
    return tokens_[static_cast<std::size_t>(coord)];
  }
  /// Positions inside their documents, token by token.
  std::vector<std::int64_t> positions(std::int64_t coord) const;
  const std::vector<SeqPiece>& pieces(std::int64_t coord) const {
    return pieces_[static_cast<std::size_t>(coord)];
  }
  /// The documents as they lie in the whole row.
  const std::vector<SeqPiece>& row_pieces() const { return row_pieces_; }

  /// Queries of one coordinate, keys of another; indices are local to each.
  std::vector<AttentionBlock> blocks(std::int64_t query_coord, std::int64_t key_coord) const;
  /// Queries of a coordinate (local indices), keys of the whole row (row indices).
  std::vector<AttentionBlock> row_blocks(std::int64_t query_coord) const;
  /// Both of the whole row.
  std::vector<AttentionBlock> all_blocks() const;

  /// The distances i, ascending and beginning with 0, at which some coordinate r sees keys of
  /// coordinate (r - i) mod degree. A ring visits these and no others.
  const std::vector<std::int64_t>& ring_steps() const { return ring_steps_; }
  /// Most tokens of one coordinate.
  std::int64_t max_tokens() const;

  /// The plan of a ring whose coordinate o holds what coordinates [o inner, (o + 1) inner) of this
  /// one hold together, in row order. Requires: inner divides the degree.
  CpPlan joined(std::int64_t inner) const;

 private:
  CpPlan() = default;
  void finish();

  AttentionMask mask_;
  std::int64_t num_tokens_ = 0;
  std::vector<SeqPiece> row_pieces_;
  std::vector<std::vector<std::int64_t>> tokens_;
  std::vector<std::vector<SeqPiece>> pieces_;
  std::vector<std::int64_t> ring_steps_;
};

/// The index of each of `tokens` in a coordinate's order: the inverse of `CpPlan::tokens`.
/// `tokens` are the row's; those of the coordinate in ascending order.
std::vector<std::int64_t> indices_in(std::span<const std::int64_t> tokens,
                                     std::span<const std::int64_t> coordinate_tokens);

}  // namespace sx
