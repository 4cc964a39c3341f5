#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// How the tokens of a sequence are dealt to the coordinates of the context-parallel axis.
enum class SeqPartitionKind : std::uint8_t {
  /// 2c chunks, chunk j = [floor(j s / 2c), floor((j+1) s / 2c)); coordinate r has chunks r and
  /// 2c-1-r, so that causal attention costs all of them the same where 2c divides s (Llama 3,
  /// arXiv 2407.21783 section 3.3.2). Any length.
  kZigzag,
  /// The same for each document of a packed row: length div 2c tokens a chunk, and the left-over
  /// tokens one each to the chunks whose coordinates have the fewest so far. Token counts differ by
  /// at most one over the coordinates, without padding.
  kDocument,
  /// One range a coordinate: under a causal mask the first ones idle.
  kContiguous,
};
/// "zigzag", "document", "contiguous". Errors: kNotFound.
Result<SeqPartitionKind> parse_seq_partition(std::string_view name);

/// Tokens [begin, end) of the row.
struct SeqRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const SeqRange&, const SeqRange&) = default;
};

/// By coordinate, in ascending order; empty ranges are kept, so that every coordinate has as many.
/// Requires degree >= 1 and lengths >= 0; `documents` are the lengths of a row's documents, one for
/// a row that is not packed. kZigzag and kContiguous look at the row as a whole.
std::vector<std::vector<SeqRange>> partition_sequence(SeqPartitionKind kind,
                                                      std::span<const std::int64_t> documents,
                                                      std::int64_t degree);

/// The row's tokens of one coordinate, in its order: what positions, targets and masks are cut
/// with.
std::vector<std::int64_t> token_indices(const std::vector<SeqRange>& ranges);

/// Pairs of a query and a key it may see under a causal mask within each document: the work of
/// attention.
std::int64_t causal_pairs(const std::vector<SeqRange>& ranges,
                          std::span<const std::int64_t> documents);

}  // namespace sx
