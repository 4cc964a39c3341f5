#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/base/thread_pool.h"
#include "sextant/token/encode_options.h"
#include "sextant/token/token_id.h"
#include "sextant/token/token_model.h"
#include "sextant/token/vocab.h"

namespace sx {

/// Bytes to token ids and back, by one vocabulary.
///
/// An immutable value: copies share their tables, const calls are thread-safe. For byte-level
/// vocabularies without a normaliser `decode(encode(b)) == b` for every byte string b under the
/// default options.
class Tokenizer {
 public:
  /// Reads a vocabulary. By name, when `kind` is "auto": a `.tiktoken` file (split rule and special
  /// tokens from `<name>.json` beside it), a `tokenizer.json` of Hugging Face, a SentencePiece
  /// `.model`, a folder with one of them (vocab.tiktoken, tokenizer.json, tokenizer.model), or the
  /// word "bytes". `kind` says it: "tiktoken", "sextant" (both read .tiktoken), "hf",
  /// "sentencepiece", "bytes" (the path is ignored).
  /// Errors:  kNotFound, kIo, kCorrupt (file and line or JSON path), kUnsupported (a part that is
  /// not handled, by its JSON path).
  static Result<Tokenizer> load(const std::filesystem::path& path, std::string_view kind = "auto");
  /// Ids 0 .. 255 are the byte values, 256 ends a document. Needs no file.
  static Tokenizer bytes();
  static Tokenizer from_vocab(Vocab vocab);
  static Tokenizer from_model(std::shared_ptr<const TokenModel> model);

  /// Appends the ids of `text` to `out` and returns what was met.
  /// Errors:  kInvalid under a policy kError; then `out` is as before.
  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out,
                             const EncodeOptions& options = {}) const;

  /// `encode` of every text over the pool's threads; results in the order of `texts`. Errors: the
  /// first text's that has one.
  Result<std::vector<std::vector<TokenId>>> encode_batch(std::span<const std::string> texts,
                                                         ThreadPool& pool,
                                                         const EncodeOptions& options = {}) const;

  /// Ids of raw bytes merged as one piece, without splitting.
  std::vector<TokenId> encode_piece(std::string_view piece) const;

  /// Concatenated bytes of the ids; special tokens give their text.
  /// Errors:  kInvalid for an id that is not assigned (id and index).
  Result<std::string> decode(std::span<const TokenId> ids) const;
  /// As decode, an unassigned id giving U+FFFD.
  std::string decode_lossy(std::span<const TokenId> ids) const;
  /// For each token the index of the character (of the whole decoded text) in which it starts; a
  /// token that begins inside a character belongs to that character. Errors: as decode;
  /// kUnsupported for a `tokenizer.json` whose decoder changes text across tokens.
  Result<std::vector<std::size_t>> decode_offsets(std::span<const TokenId> ids) const;

  /// Largest id + 1.
  std::size_t vocab_size() const;
  /// Id of the end-of-document token `<|endoftext|>`, if there is one.
  std::optional<TokenId> eod_id() const;
  Hash128 fingerprint() const;
  const std::vector<SpecialToken>& specials() const;  ///< by id
  /// Bytes of an assigned id as they stand in text, where one token alone tells them.
  std::optional<std::string_view> bytes_of(TokenId id) const;
  /// Ordinary tokens: ids below this number (with gaps in some `tokenizer.json`).
  std::size_t num_ordinary() const;
  /// The rank vocabulary; a contract error when `has_vocab` is false.
  const Vocab& vocab() const;
  bool has_vocab() const;
  /// True when text may be encoded in parts that find_safe_cut gives, and ids decoded in parts.
  bool may_cut() const;
  /// What the file says and is not done, one line each.
  std::vector<std::string> notes() const;
  /// "bytes", "tiktoken", "hf" or "sentencepiece".
  const char* kind() const;

 private:
  friend class Encoder;
  explicit Tokenizer(std::shared_ptr<const TokenModel> model) : model_(std::move(model)) {}
  Result<void> check_assigned(std::span<const TokenId> ids) const;
  std::shared_ptr<const TokenModel> model_;
};

/// A tokenizer with one thread's memory: scratch space and a cache of pieces met before. Gives the
/// ids of `Tokenizer::encode`, faster over many texts. Not thread-safe; one per thread.
class Encoder {
 public:
  static constexpr std::size_t kDefaultCacheSlots = std::size_t{1} << 20;

  explicit Encoder(const Tokenizer& tokenizer, EncodeOptions options = {},
                   std::size_t cache_slots = kDefaultCacheSlots);

  /// Appends the ids of `text` to `out`. Errors: kInvalid under a policy kError; then `out` is as
  /// before.
  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out);
  /// Calls nothing but the split rule: the pieces of `text` under the options, special tokens as
  /// pieces of their own.
  Result<std::vector<std::string>> pieces(std::string_view text);

  std::uint64_t cache_hits() const;
  std::uint64_t cache_misses() const;

 private:
  std::shared_ptr<const TokenModel> model_;
  std::unique_ptr<EncodeSession> session_;
};

}  // namespace sx
