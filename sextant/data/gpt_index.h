#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sextant/base/result.h"
#include "sextant/data/npy.h"
#include "sextant/data/sequences.h"

namespace sx {

/// The three arrays by which Megatron-LM orders one dataset (`gpt_dataset.py`, `helpers.cpp`), bit
/// for bit. docs/notes/megatron_datasets.md says in words what follows.
struct GptIndexSpec {
  std::uint64_t first_sequence = 0;  ///< the split's sequences: [first, last) of the file
  std::uint64_t last_sequence = 0;
  std::optional<std::uint64_t> num_samples;  ///< asked for; nothing = one epoch
  std::uint64_t seq_len = 0;                 ///< L > 0
  std::uint64_t seed = 1234;                 ///< 0 .. 2^32 - 1
  bool extra_token = true;  ///< samples have L + 1 tokens, the last one also the next one's first
  bool drop_last = true;    ///< false: a last sample that is not full is kept (padded)
};

/// What follows from a spec and the split's number of tokens.
struct GptIndexCounts {
  std::uint64_t tokens_per_epoch = 0;
  std::uint64_t epochs = 1;
  bool separate_final_epoch = false;  ///< the last epoch is shuffled apart
  std::uint64_t samples = 0;
  std::uint64_t samples_before_last = 0;  ///< of the epochs before a separate one
  /// Not drop_last: samples that whole numbers give. Megatron-LM divides in 32-bit floating point,
  /// so `samples` differs from 2^24 tokens on.
  std::uint64_t exact_samples = 0;
  friend bool operator==(const GptIndexCounts&, const GptIndexCounts&) = default;
};

/// Errors: kInvalid for a split without tokens or a seed above 2^32 - 1; kLimit when the sequences
/// (of all epochs) do not fit 32-bit numbers, as there.
Result<GptIndexCounts> count_gpt_index(const SequenceLengths& lengths, const GptIndexSpec& spec);

struct GptIndex {
  NpyArray document_index;  ///< int32 [epochs x sequences]: sequence numbers of the file
  NpyArray sample_index;    ///< [samples + 1][2]: place in document_index, offset in that sequence
  NpyArray shuffle_index;   ///< [samples]: row of sample_index that sample k begins at
};

/// Peak memory: the arrays. Errors: as count_gpt_index.
Result<GptIndex> build_gpt_index(const SequenceLengths& lengths, const GptIndexSpec& spec);

/// Error kCorrupt, with the reason, when arrays from a file are not those of `spec`: types, shapes,
/// every entry of document_index in the split, every row of sample_index against the lengths, and
/// shuffle_index gives each row once. Which document or sample is shuffled where is not checked.
Result<void> check_gpt_index(const GptIndex& index, const SequenceLengths& lengths,
                             const GptIndexSpec& spec, const GptIndexCounts& counts);

}  // namespace sx
