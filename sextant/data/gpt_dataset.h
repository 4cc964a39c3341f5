#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/data/gpt_index.h"
#include "sextant/data/sequences.h"

namespace sx {

/// One prefix in Megatron-LM's order (`GPTDataset`): sample k -> L + x token ids. Immutable;
/// threads: safe.
class GptDataset {
 public:
  struct Options {
    std::string path;             ///< the prefix as the user gave it
    std::string split = "train";  ///< "train", "valid", "test"
    GptIndexSpec spec;
    nlohmann::ordered_json identity;  ///< the description that names its cache
    std::filesystem::path cache;      ///< folder of the cache; empty = none
    /// The files behind the sequences, as far as a cache remembers them: sizes, times, hash.
    nlohmann::ordered_json origin;
  };
  /// Loads the arrays from the cache or builds them. Errors: as count_gpt_index, naming path and
  /// split.
  static Result<std::shared_ptr<const GptDataset>> open(std::shared_ptr<const Sequences> sequences,
                                                        Options options);

  std::uint64_t size() const { return counts_.samples; }
  std::uint64_t sample_tokens() const { return options_.spec.seq_len + extra_; }
  const Options& options() const { return options_; }
  const GptIndexCounts& counts() const { return counts_; }
  const GptIndex& index() const { return index_; }
  const std::shared_ptr<const Sequences>& sequences() const { return sequences_; }

  /// A run of tokens of one sequence.
  struct Piece {
    std::uint64_t sequence = 0;
    std::uint64_t first = 0;
    std::uint64_t length = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  /// Row of the sample index that sample k is made from: its place before the shuffle. Errors:
  /// kCorrupt for an entry outside the array.
  Result<std::uint64_t> row_of(std::uint64_t k) const;
  /// The pieces of a row in order, empty ones included. Errors: kCorrupt when the arrays lead out
  /// of the data, or to more than L + x tokens.
  Result<std::vector<Piece>> pieces(std::uint64_t row) const;
  /// Reads the tokens of a row into `out` (L + x places) and gives their number; what is behind
  /// them is left as it is. Errors: kCorrupt, kIo.
  Result<std::uint64_t> read(const std::vector<Piece>& pieces, std::span<std::int32_t> out) const;

 private:
  GptDataset(std::shared_ptr<const Sequences> sequences, Options options)
      : sequences_(std::move(sequences)),
        lengths_(sequences_->lengths()),
        options_(std::move(options)),
        extra_(options_.spec.extra_token ? 1 : 0) {}
  Result<void> load_index();
  Error with_path(Error error) const;
  std::shared_ptr<const Sequences> sequences_;
  SequenceLengths lengths_;
  Options options_;
  std::uint64_t extra_;
  GptIndexCounts counts_;
  GptIndex index_;
};

}  // namespace sx
