#pragma once

#include <cstdint>
#include <memory>

#include "sextant/base/result.h"
#include "sextant/base/units.h"
#include "sextant/data/batch.h"
#include "sextant/data/dataset.h"
#include "sextant/data/fim.h"
#include "sextant/data/loader_state.h"
#include "sextant/data/masks.h"

namespace sx {

struct LoaderOptions {
  /// kTrain: shuffled epochs without end. kEval: each target token of the data exactly once, in
  /// order; the last rows are filled with masked ones, so every rank gives the same number of
  /// batches.
  enum class Pass { kTrain, kEval };
  Pass pass = Pass::kTrain;
  std::uint64_t seed = 1;             ///< of the order (data.shuffle_seed)
  bool shuffle = true;                ///< false: blocks in file order (data.shuffle = "none")
  std::int64_t seq_len = 0;           ///< a multiple of block_tokens
  std::int64_t block_tokens = 0;      ///< 0 = seq_len
  std::int64_t micro_batch_size = 1;  ///< rows per batch
  std::int64_t micro_batches = 1;     ///< per step and data rank (accumulation)
  std::int64_t data_rank = 0;
  std::int64_t data_world = 1;
  MaskOptions masks;
  std::shared_ptr<const Fim> fim;  ///< null = samples stay as they are
  std::int64_t vocab_size = 0;     ///< > 0: an id outside [0, vocab_size) is an error of its batch
  int workers = 2;                 ///< 0 = read in next(); the number never changes results
  int lookahead_batches = 8;       ///< batches ready or in work ahead of next(), at least 1
  bool allow_change = false;       ///< restore() takes a state of another data plan
  Seconds stall_timeout{300.0};    ///< longest wait inside next()
  std::shared_ptr<HostPool> pool;  ///< null = its own
};

/// Gives the microbatches of one data rank in one global order that is a pure function of (seed,
/// position): the native one, or Megatron-LM's when the dataset was made for it (its positions are
/// samples, its seed and row length those of its configuration).
///
/// Row j of microbatch m on data rank r is row (m * data_world + r) * micro_batch_size + j of the
/// global batch, so W ranks with one microbatch and one rank with W microbatches see the same row
/// groups in the same order. Global batch = micro_batch_size * micro_batches * data_world rows; row
/// g takes seq_len / block_tokens positions from `position + g * seq_len / block_tokens` on.
/// Threads: one caller; workers read ahead within `lookahead_batches`. The destructor waits at most
/// a second for a worker that hangs in a read and then leaves it behind.
class Loader {
 public:
  /// Errors: kInvalid when seq_len is no multiple of block_tokens (names the nearest legal ones),
  /// or a member is shorter than block_tokens + 1 tokens; ContractError for ranks and sizes out of
  /// range.
  static Result<Loader> open(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  /// The next microbatch of this rank. Errors: those of the source; kTimeout after stall_timeout,
  /// with what is late; kNotFound ("end of pass") behind the last batch of an evaluation. The error
  /// of one batch is given again by each call.
  Result<Batch> next();

  /// State behind the last whole global batch given by next() (in the middle of one: before it).
  LoaderState state() const;
  /// Continues at `state`; ranks, micro batch, accumulation, workers and seq_len may differ from
  /// those that saved it. Cost O(1). Errors: kInvalid when seed, unit, block size or plan differ;
  /// with `allow_change` a changed plan passes.
  Result<void> restore(const LoaderState& state, bool allow_change = false);
  /// Back to the first batch (evaluation again).
  void rewind();

  /// Rows of a global batch.
  std::uint64_t global_batch_size() const;
  /// Tokens (inputs) of a global batch.
  std::uint64_t tokens_per_step() const;
  /// Steps (global batches) until the end: of one evaluation pass, or of Megatron-LM's order, which
  /// holds the samples it was built for; 0 (no end) for the native order of training.
  std::uint64_t num_steps() const;
  /// Evaluation: target tokens of one pass over all ranks; in Megatron-LM's order with those of
  /// padding.
  std::uint64_t num_eval_tokens() const;
  /// Training: passes over the data at the current position, e.g. 1.25 (by the first member).
  double epoch() const;
  /// Seconds next() has waited for data since the last call of this function.
  Seconds take_wait();

 private:
  struct Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sx
