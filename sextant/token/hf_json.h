#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/bpe.h"
#include "sextant/token/split_rule.h"
#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// What a `tokenizer.json` of Hugging Face tokenizers says, as plain data (docs/formats/
/// tokenizer_json.md). Behaviour: huggingface/tokenizers 0.23.

struct HfAddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the spaces before it
  bool rstrip = false;       ///< takes the spaces after it
  bool normalized = false;   ///< looked for in the normalised text
  bool special = false;
};

struct HfNormalizer {
  enum class Kind { kNfc, kNfkc, kNfd, kNfkd, kLowercase, kPrepend, kReplace, kStrip };
  Kind kind = Kind::kNfc;
  std::string content;             ///< kPrepend, kReplace
  std::optional<Pattern> pattern;  ///< kReplace
  bool left = true, right = true;  ///< kStrip
};

enum class HfSplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};
enum class HfPrependScheme { kAlways, kFirst, kNever };

struct HfPreTokenizer {
  enum class Kind {
    kByteLevel,
    kSplit,
    kDigits,
    kMetaspace,
    kWhitespace,
    kWhitespaceSplit,
    kPunctuation
  };
  Kind kind = Kind::kByteLevel;
  bool add_prefix_space = false;   ///< kByteLevel
  bool use_regex = false;          ///< kByteLevel: splits by r50k
  SplitRule rule;                  ///< kSplit: a pattern that is a known family's
  std::optional<Pattern> pattern;  ///< kSplit
  bool invert = false;             ///< kSplit
  HfSplitBehavior behavior = HfSplitBehavior::kIsolated;  ///< kSplit, kPunctuation
  bool individual_digits = false;                         ///< kDigits
  std::string replacement;                                ///< kMetaspace: one character
  HfPrependScheme prepend = HfPrependScheme::kAlways;     ///< kMetaspace
  bool split = true;                                      ///< kMetaspace
};

struct HfDecoder {
  enum class Kind { kByteLevel, kByteFallback, kFuse, kReplace, kStrip, kMetaspace };
  Kind kind = Kind::kByteLevel;
  std::optional<Pattern> pattern;   ///< kReplace
  std::string content;              ///< kReplace; kStrip: one character
  std::size_t start = 0, stop = 0;  ///< kStrip: at most so many at each end of each token
  std::string replacement;          ///< kMetaspace
  HfPrependScheme prepend = HfPrependScheme::kAlways;
};

struct HfBpe {
  std::vector<std::pair<std::string, TokenId>> tokens;  ///< by id; ids may have gaps
  std::vector<BpeMerge> merges;                         ///< by rank
  std::optional<TokenId> unk;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

struct HfFile {
  std::vector<HfAddedToken> added;
  std::vector<HfNormalizer> normalizers;
  std::vector<HfPreTokenizer> pre_tokenizers;
  std::vector<TokenId> before, after;  ///< post-processor: around a single text
  std::vector<HfDecoder> decoders;
  bool has_decoder = false;
  HfBpe model;
  std::vector<std::string> notes;  ///< parts that were read and have no effect
  std::string facts;               ///< all of the above as canonical text, for the fingerprint
};

/// Errors:  kCorrupt for what breaks the format; kUnsupported for a legal part that is not handled.
/// Both name the JSON path in `where`, behind `source`.
Result<HfFile> parse_hf_json(std::string_view text, const std::string& source);
Result<HfFile> read_hf_json(const std::filesystem::path& path);

/// A rank vocabulary as tokenizer.json: ByteLevel, its split pattern, all pairs as merges in the
/// order (rank of the result, of the left, of the right part), ignore_merges on. Hugging Face
/// tokenizers gives the ids of this vocabulary from it.
std::string format_hf_json(const Vocab& vocab);

/// The rank vocabulary that the file is, when its ids are ranks: byte-level, no normaliser, ids
/// without gaps, and every pair whose concatenation is a token listed in the order of the ids.
/// Errors: kUnsupported with what stands against it.
Result<Vocab> rank_vocab_of(const HfFile& file);

/// The byte that each character of the byte-level alphabet stands for, and back: printable Latin-1
/// for themselves, the rest from U+0100 on in ascending order.
std::string to_byte_level(std::string_view bytes);
/// nullopt when a character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace sx
