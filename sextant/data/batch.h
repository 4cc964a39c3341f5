#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sx {

/// Reusable host memory for batches. Blocks are aligned to 128 bytes and handed back by the batch's
/// destructor. The trainer may give `allocate`/`release` of pinned memory. Thread-safe; lives as
/// long as any block of it.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  using Allocate = std::function<void*(std::size_t bytes)>;  ///< 128-byte aligned, or nullptr
  using Release = std::function<void(void*)>;

  /// With no functions: aligned operator new and delete.
  static std::shared_ptr<HostPool> make(Allocate allocate = {}, Release release = {});
  ~HostPool();

  using Block = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  /// A block of at least `bytes` bytes, new or reused; not cleared.
  Block take(std::size_t bytes);
  /// Blocks made so far: stays small when batches are handed back.
  std::size_t num_allocated() const;

 private:
  struct State;
  explicit HostPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Where one row of a batch comes from; enough to make the row again alone.
struct SampleKey {
  std::uint32_t member = 0;  ///< index of the dataset in the plan
  std::uint64_t epoch = 0;
  std::uint64_t unit = 0;      ///< block of that epoch (before shuffling)
  std::uint64_t token = 0;     ///< first input token, counted in the member's part (split)
  std::uint64_t document = 0;  ///< document of that token, counted in the member's part
  // In Megatron-LM's order: unit = row of the sample index, document = sequence of the file, token
  // = first token in that sequence.
  friend bool operator==(const SampleKey&, const SampleKey&) = default;
};

/// Where a batch stands in the run.
struct BatchCursor {
  std::uint64_t step =
      0;  ///< global batches given before this one, counted from position 0 or the last restore
  std::uint32_t micro_batch = 0;  ///< which of the step's microbatches of this data rank
  std::uint32_t num_micro_batches = 1;
  std::uint64_t position = 0;  ///< order position of the global batch's first row
  friend bool operator==(const BatchCursor&, const BatchCursor&) = default;
  bool last_of_step() const { return micro_batch + 1 == num_micro_batches; }
};

/// One microbatch of one data rank in host memory: b rows of s tokens, row-major, every array
/// 128-byte aligned.
///
/// `targets` are stored, not derived: at a block border they are the true next token.
/// `document_ids` count documents of the row from 0; `positions` count tokens inside the document
/// from 0 (or along the row when document masking is off); `cu_seqlens` of a row begins with 0,
/// ends with s, and is filled up with s to s+1 entries. Attention that stays inside documents needs
/// only one of document_ids or cu_seqlens. Move-only. Rows that only fill up a last evaluation
/// batch have loss_mask 0 everywhere and key.member == kFiller.
class Batch {
 public:
  static constexpr std::uint32_t kFiller = 0xffffffffu;

  Batch() = default;
  /// Uninitialised arrays of b x s from `pool`.
  Batch(HostPool& pool, std::int64_t num_rows, std::int64_t seq_len);

  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t seq_len() const { return seq_len_; }

  std::span<std::int32_t> tokens() { return {tokens_, count()}; }
  std::span<const std::int32_t> tokens() const { return {tokens_, count()}; }
  std::span<std::int32_t> targets() { return {targets_, count()}; }
  std::span<const std::int32_t> targets() const { return {targets_, count()}; }
  std::span<std::int32_t> positions() { return {positions_, count()}; }
  std::span<const std::int32_t> positions() const { return {positions_, count()}; }
  std::span<std::int32_t> document_ids() { return {document_ids_, count()}; }
  std::span<const std::int32_t> document_ids() const { return {document_ids_, count()}; }
  /// 1 = the target counts in the loss.
  std::span<std::uint8_t> loss_mask() { return {loss_mask_, count()}; }
  std::span<const std::uint8_t> loss_mask() const { return {loss_mask_, count()}; }
  /// [b][s+1].
  std::span<std::int32_t> cu_seqlens() { return {cu_seqlens_, cu_count()}; }
  std::span<const std::int32_t> cu_seqlens() const { return {cu_seqlens_, cu_count()}; }

  std::vector<std::int32_t>
      num_documents;  ///< [b]: segments of the row, the used part of cu_seqlens is one longer
  std::int32_t max_seqlen = 0;        ///< longest segment of all rows
  std::uint64_t num_loss_tokens = 0;  ///< sum of loss_mask
  std::vector<SampleKey> keys;        ///< [b]
  BatchCursor cursor;

 private:
  std::size_t count() const { return static_cast<std::size_t>(num_rows_ * seq_len_); }
  std::size_t cu_count() const { return static_cast<std::size_t>(num_rows_ * (seq_len_ + 1)); }

  HostPool::Block block_{nullptr, [](std::byte*) {}};
  std::int64_t num_rows_ = 0;
  std::int64_t seq_len_ = 0;
  std::int32_t* tokens_ = nullptr;
  std::int32_t* targets_ = nullptr;
  std::int32_t* positions_ = nullptr;
  std::int32_t* document_ids_ = nullptr;
  std::int32_t* cu_seqlens_ = nullptr;
  std::uint8_t* loss_mask_ = nullptr;
};

}  // namespace sx
