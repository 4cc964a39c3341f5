#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sx {

/// In which order the rows of one token are added; each is the same on every run.
enum class SumOrder : std::uint8_t {
  kSlot,        ///< best expert first: the result does not depend on where experts lie
  kCoordinate,  ///< on each coordinate by slot, then over coordinates: the order of a
                ///< reduce_scatter, so that both kinds of dispatch give the same bits
};

/// Which source each row of a longer table is a copy of, and the rows of each source in the order
/// in which they are added. Plain data, shared by a copy and by its adjoint.
struct RowMap {
  std::int64_t num_sources = 0;
  std::vector<std::int64_t> source_of_row;  ///< [rows]
  std::vector<std::int64_t> begin{0};       ///< [sources + 1]: where the terms of a source begin
  std::vector<std::int64_t> term;           ///< [rows]: rows, by source
  std::vector<std::uint8_t> ends_partial;   ///< [rows]: after this term the partial sum is rounded
  std::int64_t num_rows() const { return static_cast<std::int64_t>(source_of_row.size()); }
};

/// (token, slot) pairs sorted by expert: a stable counting sort on (expert, token).
struct ExpertSort {
  std::shared_ptr<const RowMap> tokens;  ///< sources: tokens
  std::shared_ptr<const RowMap> pairs;   ///< sources: pairs, token * K + slot; at most a row each
  std::vector<std::int64_t> rows_of_expert;
};

/// Which experts are wanted, and on how many coordinates all of them lie.
struct ExpertRange {
  std::int64_t first = 0, count = 0;
  std::int64_t per_coordinate = 0;  ///< for SumOrder::kCoordinate
};

/// Rows for the experts of `range`, by ascending expert, then token. Experts below 0 are not
/// routed; those outside the range belong to others. A token names an expert at most once.
///
/// Shapes:  experts [tokens * topk], by token, then slot.
/// Errors:  ContractError for a token that names an expert twice.
ExpertSort sort_by_expert(std::span<const std::int32_t> experts, std::int64_t topk,
                          ExpertRange range, SumOrder order);

/// Blocks change places: of the table that lies as (outer, inner) blocks of counts[outer][inner]
/// rows to the one that lies as (inner, outer).
std::shared_ptr<const RowMap> transpose_blocks(
    const std::vector<std::vector<std::int64_t>>& counts);

/// out[r] = x[source_of_row[r]]; the gradient of a source is the sum over its rows, in order.
/// Shapes:  x [sources, ...], contiguous or not; result [rows, ...].
at::Tensor copy_rows(const at::Tensor& x, std::shared_ptr<const RowMap> map);

/// out[s] = sum over the rows of s in order, in fp32 (fp64 for fp64), rounded once (once for each
/// coordinate and once more with SumOrder::kCoordinate); zero where there is none. The adjoint of
/// `copy_rows`, whose gradient it is and the other way round.
/// Shapes:  rows [rows, ...]; result [sources, ...].
at::Tensor sum_rows(const at::Tensor& rows, std::shared_ptr<const RowMap> map);

}  // namespace sx
