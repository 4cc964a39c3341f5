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
#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// What to do with a special token's text inside a document.
enum class SpecialHandling {
  kText,   ///< ordinary text: a document cannot forge an end of document (default)
  kAllow,  ///< recognised
  kError,  ///< any occurrence is an error
};
/// What to do with bytes outside well-formed UTF-8 (Unicode standard, table 3-7).
enum class InvalidHandling {
  kBytes,    ///< kept: each is one character of class "other"; decode gives it back (default)
  kReplace,  ///< each maximal ill-formed part becomes U+FFFD
  kError,    ///< an error that names the first offset
};
const char* to_string(SpecialHandling policy);
const char* to_string(InvalidHandling policy);
std::optional<SpecialHandling> parse_special_handling(std::string_view name);
std::optional<InvalidHandling> parse_invalid_handling(std::string_view name);

struct EncodeOptions {
  SpecialHandling special = SpecialHandling::kText;
  /// With kAllow: texts that are recognised; empty = all.
  std::vector<std::string> allowed;
  InvalidHandling invalid = InvalidHandling::kBytes;
};

struct EncodeStats {
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t invalid_bytes = 0;  ///< bytes outside well-formed UTF-8
};

/// Bytes to token ids and back, by one vocabulary.
///
/// An immutable value: copies share their tables, const calls are thread-safe. `decode(encode(b))
/// == b` for every byte string b under the default options.
class Tokenizer {
 public:
  /// Reads a vocabulary: a `.tiktoken` file (split rule and special tokens from `<name>.json`
  /// beside it), a folder that `tokenize train` wrote (it holds vocab.tiktoken), or the word
  /// "bytes". `kind`: "auto", "tiktoken", "sextant" (both read .tiktoken) or "bytes" (the path is
  /// ignored). Errors:  kNotFound, kIo, kCorrupt (file and line), kUnsupported (a pattern without
  /// matcher, another kind).
  static Result<Tokenizer> load(const std::filesystem::path& path, std::string_view kind = "auto");
  /// Ids 0 .. 255 are the byte values, 256 ends a document. Needs no file.
  static Tokenizer bytes();
  static Tokenizer from_vocab(Vocab vocab);

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
  /// token that begins inside a character belongs to that character. Errors: as decode.
  Result<std::vector<std::size_t>> decode_offsets(std::span<const TokenId> ids) const;

  /// Largest id + 1.
  std::size_t vocab_size() const;
  /// Id of the end-of-document token `<|endoftext|>`, if there is one.
  std::optional<TokenId> eod_id() const;
  Hash128 fingerprint() const;
  const Vocab& vocab() const;
  /// "bytes" or "tiktoken".
  const char* kind() const;

 private:
  friend class Encoder;
  struct Model;
  explicit Tokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

/// A tokenizer with one thread's memory: scratch space and a cache of pieces met before. Gives the
/// ids of `Tokenizer::encode`, faster over many texts. Not thread-safe; one per thread.
class Encoder {
 public:
  static constexpr std::size_t kDefaultCacheSlots = 65536;

  explicit Encoder(const Tokenizer& tokenizer, EncodeOptions options = {},
                   std::size_t cache_slots = kDefaultCacheSlots);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  /// Appends the ids of `text` to `out`. Errors: kInvalid under a policy kError; then `out` is as
  /// before.
  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out);
  /// Calls nothing but the split rule: the pieces of `text` under the options, special tokens as
  /// pieces of their own.
  Result<std::vector<std::string>> pieces(std::string_view text);

  std::uint64_t cache_hits() const;
  std::uint64_t cache_misses() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
