#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/base/thread_pool.h"
#include "sextant/token/byte_hash.h"
#include "sextant/token/piece_key.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/split_rule.h"

namespace sx {

/// A piece of text and how often it was seen (64 bits: web corpora pass 2^32).
struct PieceCount {
  std::string piece;
  std::uint64_t count = 0;
  friend bool operator==(const PieceCount&, const PieceCount&) = default;
};

/// Counts of pieces in memory: those of at most 15 bytes lie in the table itself.
class PieceTable {
 public:
  void add(std::string_view piece, std::uint64_t count);
  /// Adds all of `other`, which is empty afterwards.
  void take(PieceTable& other);
  std::size_t size() const { return used_ + long_.size(); }
  /// Rough bytes held.
  std::size_t memory_bytes() const;
  /// Moves every count into `out`, in no order; empty afterwards.
  void drain(std::vector<PieceCount>& out);

 private:
  struct Slot {
    PieceKey key;  // all zero = free
    std::uint64_t count = 0;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return hash_bytes(bytes); }
  };
  void add_key(const PieceKey& key, std::uint64_t count);
  void grow();

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> long_;
  std::size_t long_bytes_ = 0;
};

/// Counts the pieces of texts over threads. The counts do not depend on threads, order or batching.
class PieceCounter {
 public:
  /// Texts of `specials` are not counted: they separate what stands before and after them, as they
  /// do when recognised.
  explicit PieceCounter(const SplitRule& split, const std::vector<std::string>& specials = {});

  /// Splits and counts `texts`, each with weight `weight`. Errors: those of PieceSplitter::start
  /// (patterns only); some of the texts are counted then.
  Result<void> add(std::span<const std::string> texts, ThreadPool& pool, std::uint64_t weight = 1);
  /// Counts one piece as it is.
  void add_piece(std::string_view piece, std::uint64_t count);

  std::size_t unique();
  /// Rough bytes held, for a memory budget.
  std::size_t memory_bytes() const;
  /// Everything counted so far, by piece bytes ascending; the counter is empty afterwards.
  std::vector<PieceCount> take_sorted();

 private:
  Result<void> count_text(std::string_view text, std::uint64_t weight, PieceSplitter& splitter,
                          PieceTable& table) const;
  void merge_tables();

  SplitRule split_;
  SpecialScanner specials_;
  std::vector<PieceTable>
      tables_;  // one for each part of a batch that runs at once; the first is add_piece's
};

/// A file of counts sorted by piece: the trainer's saved state and its spill run at once.
/// Layout: magic "SXPC0001", u64 number of pieces, then (u32 length, u64 count, bytes) each, then
/// XXH3-64 of all before; integers little-endian. Written atomically. Errors: kIo.
Result<void> write_count_run(const std::filesystem::path& path,
                             const std::vector<PieceCount>& counts);

/// Exact sum of several runs: `on_piece` gets each piece once, ascending. Files are mapped, not
/// read into memory. Errors:  kNotFound, kIo, kCorrupt (file and what is wrong), before the first
/// call of `on_piece`.
Result<void> merge_count_runs(
    const std::vector<std::filesystem::path>& paths,
    const std::function<void(std::string_view piece, std::uint64_t count)>& on_piece);

}  // namespace sx
