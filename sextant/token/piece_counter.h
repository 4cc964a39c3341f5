#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/base/thread_pool.h"
#include "sextant/token/splitter.h"

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
  explicit PieceCounter(SplitFamily split) : split_(split) {}

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
  using Map = std::unordered_map<std::string, std::uint64_t>;
  SplitFamily split_;
  std::vector<Map> shards_ = std::vector<Map>(kShards);
  std::size_t bytes_ = 0;
};

/// A file of counts sorted by piece: the trainer's saved state and its spill run at once.
/// Layout: magic "SXPC0001", u64 number of pieces, then (u32 length, u64 count, bytes) each, then
/// XXH3-64 of all before.
Result<void> write_count_run(const std::filesystem::path& path,
                             const std::vector<PieceCount>& counts);
/// Errors:  kNotFound, kIo, kCorrupt.
Result<std::vector<PieceCount>> read_count_run(const std::filesystem::path& path);
/// Exact sum of several runs, by piece ascending. Errors: as read_count_run.
Result<std::vector<PieceCount>> merge_count_runs(const std::vector<std::filesystem::path>& paths);

}  // namespace sx
