#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/data/batch.h"
#include "sextant/data/dataset.h"
#include "sextant/data/loader.h"
#include "sextant/data/order.h"

namespace sx {

using AnyOrder = std::variant<NativeOrder, SequentialOrder, MegatronOrder>;

/// Makes any microbatch of one data rank from its number alone. Immutable: threads share one.
class BatchMaker {
 public:
  /// Batches are counted from `position` of the order on.
  BatchMaker(std::shared_ptr<const Dataset> dataset, AnyOrder order, const LoaderOptions& options,
             std::uint64_t position);

  /// Microbatch `index` of this rank: step index / micro_batches, microbatch index % micro_batches.
  Result<Batch> make(std::uint64_t index) const;
  /// False for the native order of training.
  bool has_end() const { return !std::holds_alternative<NativeOrder>(order_); }
  /// Steps until the end: whole ones in training, in an evaluation also one that is not full; 0
  /// without an end.
  std::uint64_t num_steps() const;

  std::uint64_t rows_per_step() const;
  std::uint64_t blocks_per_row() const { return blocks_per_row_; }
  std::uint64_t position_of_step(std::uint64_t step) const;
  /// `before` chained with the position and key of each row of the step, all ranks.
  Hash128 hash_step(const Hash128& before, std::uint64_t step) const;

 private:
  OrderBlock block_at(std::uint64_t position) const;
  Result<void> fill_row(Batch& batch, std::size_t row, std::uint64_t position) const;
  /// A row before padding became 0.
  struct RawRow {
    std::span<const std::int32_t> tokens;
    std::span<const std::int32_t> targets;
    std::vector<std::int32_t> borders;
  };
  Result<void> fill_sample(Batch& batch, std::size_t row, std::uint64_t position) const;
  Result<void> fill_rewritten_row(Batch& batch, std::size_t row, std::uint64_t position) const;
  void add_eod_borders(RawRow& raw) const;
  void finish_row(Batch& batch, std::size_t row, const RawRow& raw) const;
  void fill_masks(Batch& batch, std::size_t row, std::span<const std::int32_t> tokens,
                  const std::vector<std::int32_t>& borders) const;
  void fill_empty_row(Batch& batch, std::size_t row) const;
  Result<void> read_block(const OrderBlock& block, std::span<std::int32_t> tokens,
                          std::span<std::int32_t> targets) const;
  Result<void> check_ids(const Batch& batch) const;

  std::shared_ptr<const Dataset> dataset_;
  AnyOrder order_;
  LoaderOptions options_;
  std::uint64_t position_;
  std::uint64_t blocks_per_row_;
  std::uint64_t end_ = ~std::uint64_t{0};  ///< first position behind the pass
};

}  // namespace sx
