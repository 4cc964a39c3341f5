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
#include "sextant/token/special_tokens.h"
#include "sextant/token/split_rule.h"

namespace sx {

/// A piece of text and how often it was seen (64 bits: web corpora pass 2^32).
struct PieceCount {
  std::string piece;
  std::uint64_t count = 0;
  friend bool operator==(const PieceCount&, const PieceCount&) = default;
};

/// Counts the pieces of texts over threads. The counts do not depend on threads, order or batching.
class PieceCounter {
 public:
  /// Texts of `specials` are not counted: they separate what stands before and after them, as they
  /// do when recognised.
  explicit PieceCounter(SplitFamily split, const std::vector<std::string>& specials = {});

  /// Splits and counts `texts`, each with weight `weight`.
  void add(std::span<const std::string> texts, ThreadPool& pool, std::uint64_t weight = 1);
  /// Counts one piece as it is.
  void add_piece(std::string_view piece, std::uint64_t count);

  std::size_t unique() const;
  /// Rough bytes held, for a memory budget.
  std::size_t memory_bytes() const;
  /// Everything counted so far, by piece bytes ascending; the counter is empty afterwards.
  std::vector<PieceCount> take_sorted();

 private:
  static constexpr std::size_t kShards = 16;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return hash_bytes(bytes); }
  };
  using Map = std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>>;
  static void bump(Map& map, std::string_view piece, std::uint64_t count);
  static std::size_t shard_of(std::string_view piece) { return hash_bytes(piece) >> 60; }

  void count_text(std::string_view text, std::uint64_t weight, std::vector<Map>& maps) const;

  SplitFamily split_;
  SpecialScanner specials_;
  std::vector<Map> shards_;
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
