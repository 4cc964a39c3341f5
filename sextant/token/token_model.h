#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/token/encode_options.h"
#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// One thread's way through a model: see Encoder.
class EncodeSession {
 public:
  virtual ~EncodeSession() = default;
  virtual Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out) = 0;
  virtual Result<std::vector<std::string>> pieces(std::string_view text) = 0;
  virtual std::uint64_t cache_hits() const { return 0; }
  virtual std::uint64_t cache_misses() const { return 0; }
};

/// What stands behind a Tokenizer: a rank vocabulary, a `tokenizer.json`, or a SentencePiece model.
/// Immutable; const calls are thread-safe; sessions do not outlive it.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual const char* kind() const = 0;
  virtual std::size_t vocab_size() const = 0;  ///< largest id + 1
  virtual Hash128 fingerprint() const = 0;
  virtual const std::vector<SpecialToken>& specials() const = 0;
  /// What the token stands for in text, as far as one token alone tells; nullopt for an id that is
  /// not assigned.
  virtual std::optional<std::string_view> bytes_of(TokenId id) const = 0;
  /// All ids are assigned.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  /// Tokens that are not special. Their ids lie below this number, with gaps allowed.
  virtual std::size_t num_ordinary() const = 0;
  virtual std::unique_ptr<EncodeSession> session(const EncodeOptions& options,
                                                 std::size_t cache_slots) const = 0;
  virtual std::vector<TokenId> encode_piece(std::string_view piece) const = 0;
  /// The rank vocabulary, if it is one.
  virtual const Vocab* vocab() const { return nullptr; }
  /// True when the bytes of `decode` are those of its tokens, one after the other.
  virtual bool decodes_by_bytes() const { return true; }
  /// True when text may be encoded in parts that find_safe_cut gives.
  virtual bool may_cut() const { return false; }
  /// What the file says and this model does not do, for people.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Byte-level BPE by ranks. `kind` outlives it.
std::shared_ptr<const TokenModel> make_rank_model(Vocab vocab, const char* kind);

}  // namespace sx
