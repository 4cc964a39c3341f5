#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/piece_counter.h"
#include "sextant/token/splitter.h"
#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// Which of several pairs with the highest count is merged.
enum class TieRule {
  kSmallestIds,    ///< smaller left id, then smaller right id: the rule of Hugging Face's trainer,
                   ///< and ours
  kGreatestBytes,  ///< lexicographically greatest (left bytes, right bytes): the rule of teaching
                   ///< code
};

struct BpeTrainerOptions {
  std::size_t vocab_size = 32768;  ///< all tokens: 256 bytes, merges and special tokens
  std::uint64_t min_frequency = 2;
  std::size_t max_token_length = 128;  ///< bytes; a longer result is not formed
  SplitRule split = SplitFamily::kCl100k;
  std::vector<std::string> specials = {"<|endoftext|>"};  ///< ids after all others, in this order
  TieRule tie = TieRule::kSmallestIds;
};

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
  std::uint64_t count = 0;  ///< of the pair when it was merged
  friend bool operator==(const Merge&, const Merge&) = default;
};

/// Learns byte-level BPE merges from piece counts.
///
/// Ids 0 .. 255 are the bytes in GPT-2's order. Repeat until the vocabulary is full: of all
/// adjacent pairs, each position counted (`aaa` holds `aa` twice), take the one with the highest
/// count, ties by `TieRule`; stop below min_frequency; replace left to right without overlap; the
/// result gets the next id, or the id it has when the same bytes are a token. Source: Sennrich et
/// al., ACL 2016; counts and ties as in the trainer of Hugging Face tokenizers.
///
/// Incremental: positions live in a linked list, occurrences are indexed by pair, a lazy heap
/// yields the next pair; the result equals a full recount after every merge. Deterministic;
/// single-threaded.
class BpeTrainer {
 public:
  /// `counts` in any order. Errors: a contract error for more than 2^32 - 1 bytes of different
  /// pieces.
  BpeTrainer(const BpeTrainerOptions& options, const std::vector<PieceCount>& counts);
  ~BpeTrainer();
  BpeTrainer(BpeTrainer&&) noexcept;
  BpeTrainer& operator=(BpeTrainer&&) noexcept;

  /// Makes one merge; false when training is finished.
  bool step();
  /// Merges made so far, in order.
  const std::vector<Merge>& merges() const;
  /// Merges a full vocabulary would need.
  std::size_t target_merges() const;
  /// The vocabulary of the merges so far, special tokens behind it.
  Result<Vocab> vocab() const;
  std::size_t unique_pieces() const;
  /// Tokens that the counted text has now, with the pieces' weights.
  std::uint64_t total_tokens() const;

  /// Saves words and merges; `load_state` goes on as if nothing had happened. `tag` (a fingerprint
  /// of inputs and options) must be equal.
  Result<void> save_state(const std::filesystem::path& path, const std::string& tag) const;
  /// Errors:  kNotFound, kIo, kCorrupt, kInvalid (another tag).
  static Result<BpeTrainer> load_state(const std::filesystem::path& path,
                                       const BpeTrainerOptions& options, const std::string& tag);

 private:
  struct State;
  explicit BpeTrainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sx
