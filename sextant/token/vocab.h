#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/token/split_rule.h"
#include "sextant/token/token_id.h"

namespace sx {

/// A token that stands for no text of its own (end of document and the like).
struct SpecialToken {
  std::string text;
  TokenId id = 0;
  friend bool operator==(const SpecialToken&, const SpecialToken&) = default;
};

/// What a tokenizer is made of: token bytes by rank, special tokens, split rule. Immutable after
/// `make`.
///
/// Ordinary tokens have ids 0 .. num_ordinary()-1 without gaps and id = rank (priority of merging).
/// Special tokens have larger ids, with gaps allowed. All 256 single bytes are ordinary tokens, so
/// every byte string can be encoded.
class Vocab {
 public:
  static constexpr std::size_t kMaxTokens = (std::size_t{1} << 21) - 1;

  /// Errors: kLimit for more than kMaxTokens tokens; kInvalid for a repeated or empty token, a
  /// missing single byte, a special id that collides, an empty or repeated special text.
  static Result<Vocab> make(std::vector<std::string> tokens, std::vector<SpecialToken> specials,
                            SplitRule split);

  std::size_t num_ordinary() const { return offsets_.size() - 1; }
  /// Largest id + 1: the number of rows a model's embedding needs.
  std::size_t vocab_size() const { return vocab_size_; }
  const SplitRule& split() const { return split_; }
  const std::vector<SpecialToken>& specials() const { return specials_; }  ///< by id
  std::optional<TokenId> special_id(std::string_view text) const;

  /// Bytes of an ordinary token. `id` < num_ordinary().
  std::string_view token(TokenId id) const {
    return std::string_view(blob_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  /// Bytes of any assigned id (special: its text); nullopt for an unassigned one.
  std::optional<std::string_view> bytes_of(TokenId id) const;
  /// Rank of exactly these bytes; nullopt when they are no token.
  std::optional<TokenId> find(std::string_view bytes) const;

  /// XXH3-128 over split rule, Unicode version, special tokens and all tokens: equal fingerprints
  /// encode alike.
  Hash128 fingerprint() const;

 private:
  Vocab() = default;
  Result<void> index_tokens();

  std::string blob_;                    // all token bytes, by id
  std::vector<std::uint32_t> offsets_;  // num_ordinary + 1
  std::vector<TokenId> table_;          // open addressing by hash of the bytes; kEmpty = free
  std::size_t mask_ = 0;
  std::vector<SpecialToken> specials_;
  std::size_t vocab_size_ = 0;
  SplitRule split_;
};

/// The byte that id 0 .. 255 stands for in GPT-2's order: 0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF, then the
/// rest ascending.
std::span<const unsigned char, 256> gpt2_byte_order();

}  // namespace sx
