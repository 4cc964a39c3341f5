#include "sextant/token/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sextant/base/check.h"
#include "sextant/token/bpe.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/piece_cache.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/tiktoken_file.h"

namespace sx {

struct Tokenizer::Model {
  Model(Vocab v, const char* kind_name) : vocab(std::move(v)), merger(vocab), kind(kind_name) {}
  Vocab vocab;
  BpeMerger merger;
  const char* kind;
};

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEndOfText = "<|endoftext|>";

struct InvalidScan {
  std::uint64_t bytes = 0;
  std::size_t first = 0;
};

// Bytes outside well-formed UTF-8; ASCII is passed eight bytes at a time.
InvalidScan scan_invalid(std::string_view text) {
  InvalidScan found;
  std::size_t pos = 0;
  while (pos < text.size()) {
    if (pos + 8 <= text.size()) {
      std::uint64_t word;
      std::memcpy(&word, text.data() + pos, 8);
      if ((word & 0x8080808080808080u) == 0) {
        pos += 8;
        continue;
      }
    }
    const ScannedChar c = scan_char(text, pos);
    if (!c.valid && found.bytes++ == 0) found.first = pos;
    pos += c.size;
  }
  return found;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const ScannedChar c = scan_char(text, pos);
    if (c.valid) {
      out.append(text.substr(pos, c.size));
      pos += c.size;
    } else {
      out += kReplacement;
      pos += ill_formed_size(text, pos);
    }
  }
  return out;
}

std::size_t count_char_starts(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::vector<SpecialToken> wanted_specials(const Vocab& vocab, const EncodeOptions& options) {
  if (options.special == SpecialHandling::kText) return {};
  if (options.special == SpecialHandling::kError || options.allowed.empty())
    return vocab.specials();
  std::vector<SpecialToken> wanted;
  for (const SpecialToken& special : vocab.specials()) {
    if (std::find(options.allowed.begin(), options.allowed.end(), special.text) !=
        options.allowed.end()) {
      wanted.push_back(special);
    }
  }
  return wanted;
}

}  // namespace

const char* to_string(SpecialHandling handling) {
  switch (handling) {
    case SpecialHandling::kText: return "text";
    case SpecialHandling::kAllow: return "allow";
    case SpecialHandling::kError: return "error";
  }
  return "text";
}

const char* to_string(InvalidHandling handling) {
  switch (handling) {
    case InvalidHandling::kBytes: return "bytes";
    case InvalidHandling::kReplace: return "replace";
    case InvalidHandling::kError: return "error";
  }
  return "bytes";
}

std::optional<SpecialHandling> parse_special_handling(std::string_view name) {
  for (auto handling : {SpecialHandling::kText, SpecialHandling::kAllow, SpecialHandling::kError}) {
    if (name == to_string(handling)) return handling;
  }
  return std::nullopt;
}

std::optional<InvalidHandling> parse_invalid_handling(std::string_view name) {
  for (auto handling :
       {InvalidHandling::kBytes, InvalidHandling::kReplace, InvalidHandling::kError}) {
    if (name == to_string(handling)) return handling;
  }
  return std::nullopt;
}

// ----------------------------------------------------------------------------------------------------------
// Tokenizer

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& path, std::string_view kind) {
  if (kind == "bytes" || (kind == "auto" && path == "bytes")) return bytes();
  if (kind != "auto" && kind != "tiktoken" && kind != "sextant") {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("tokenizer kind \"{}\" is not supported", kind), path.string()};
  }
  std::error_code ignored;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path, ignored)) file = path / "vocab.tiktoken";
  const std::string extension = file.extension().string();
  if (extension == ".json" || extension == ".model") {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("a tokenizer file *{} is not supported; give a .tiktoken file", extension),
        path.string()};
  }
  SX_TRY(Vocab vocab, read_tiktoken(file));
  return from_vocab(std::move(vocab));
}

Tokenizer Tokenizer::bytes() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  auto vocab = Vocab::make(std::move(tokens), {{std::string(kEndOfText), 256}}, SplitFamily::kNone);
  return Tokenizer(std::make_shared<const Model>(std::move(vocab).value(), "bytes"));
}

Tokenizer Tokenizer::from_vocab(Vocab vocab) {
  return Tokenizer(std::make_shared<const Model>(std::move(vocab), "tiktoken"));
}

Result<EncodeStats> Tokenizer::encode(std::string_view text, std::vector<TokenId>& out,
                                      const EncodeOptions& options) const {
  return Encoder(*this, options, 0).encode(text, out);
}

Result<std::vector<std::vector<TokenId>>> Tokenizer::encode_batch(
    std::span<const std::string> texts, ThreadPool& pool, const EncodeOptions& options) const {
  std::vector<std::vector<TokenId>> ids(texts.size());
  std::vector<std::optional<Error>> errors(texts.size());
  const std::size_t num_ranges = std::min(texts.size(), pool.num_threads() * 4);
  pool.parallel_for(num_ranges, [&](std::size_t range) {
    Encoder encoder(*this, options);
    for (std::size_t i = texts.size() * range / num_ranges;
         i < texts.size() * (range + 1) / num_ranges; ++i) {
      auto stats = encoder.encode(texts[i], ids[i]);
      if (!stats) errors[i] = stats.error();
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return ids;
}

std::vector<TokenId> Tokenizer::encode_piece(std::string_view piece) const {
  if (piece.empty()) return {};
  if (const auto whole = model_->vocab.find(piece)) return {*whole};
  std::vector<TokenId> ids;
  BpeMerger::Scratch scratch;
  model_->merger.merge(piece, scratch, ids);
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto bytes = model_->vocab.bytes_of(ids[i]);
    if (!bytes) {
      return Error{ErrorKind::kInvalid, fmt::format("id {} is not assigned", ids[i]),
                   fmt::format("index {}", i)};
    }
    text += *bytes;
  }
  return text;
}

std::string Tokenizer::decode_lossy(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += model_->vocab.bytes_of(id).value_or(kReplacement);
  return text;
}

Result<std::vector<std::size_t>> Tokenizer::decode_offsets(std::span<const TokenId> ids) const {
  std::vector<std::size_t> offsets;
  std::size_t chars = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto bytes = model_->vocab.bytes_of(ids[i]);
    if (!bytes) {
      return Error{ErrorKind::kInvalid, fmt::format("id {} is not assigned", ids[i]),
                   fmt::format("index {}", i)};
    }
    const bool inside =
        !bytes->empty() && (static_cast<unsigned char>(bytes->front()) & 0xC0) == 0x80;
    offsets.push_back(inside && chars > 0 ? chars - 1 : chars);
    chars += count_char_starts(*bytes);
  }
  return offsets;
}

std::size_t Tokenizer::vocab_size() const { return model_->vocab.vocab_size(); }
std::optional<TokenId> Tokenizer::eod_id() const { return model_->vocab.special_id(kEndOfText); }
Hash128 Tokenizer::fingerprint() const { return model_->vocab.fingerprint(); }
const Vocab& Tokenizer::vocab() const { return model_->vocab; }
const char* Tokenizer::kind() const { return model_->kind; }

// ------------------------------------------------------------------------------------------------------------
// Encoder

struct Encoder::State {
  State(const Tokenizer& t, EncodeOptions o, std::size_t slots)
      : tokenizer(t),
        options(std::move(o)),
        specials(wanted_specials(t.vocab(), options)),
        cache(slots) {}

  Tokenizer tokenizer;
  EncodeOptions options;
  SpecialScanner specials;
  PieceCache cache;
  BpeMerger::Scratch scratch;

  // Calls on_piece(bytes) and on_special(match) over the text in order, after the policies were
  // applied.
  template <class OnPiece, class OnSpecial>
  Result<EncodeStats> visit(std::string_view text, OnPiece on_piece, OnSpecial on_special);
};

template <class OnPiece, class OnSpecial>
Result<EncodeStats> Encoder::State::visit(std::string_view text, OnPiece on_piece,
                                          OnSpecial on_special) {
  EncodeStats stats;
  stats.bytes = text.size();
  const InvalidScan invalid = scan_invalid(text);
  stats.invalid_bytes = invalid.bytes;
  std::string replaced;
  if (invalid.bytes != 0 && options.invalid == InvalidHandling::kError) {
    return Error{ErrorKind::kInvalid, "bytes that are not UTF-8",
                 fmt::format("byte {}", invalid.first)};
  }
  if (invalid.bytes != 0 && options.invalid == InvalidHandling::kReplace) {
    replaced = replace_invalid(text);
    text = replaced;
  }
  if (options.special == SpecialHandling::kError) {
    if (const auto match = specials.find(text, 0)) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("the text holds the special token {}",
                               text.substr(match->begin, match->end - match->begin)),
                   fmt::format("byte {}", match->begin)};
    }
  }
  const SplitFamily split = tokenizer.vocab().split();
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto match = specials.find(text, begin);
    const std::size_t end = match ? match->begin : text.size();
    const std::string_view segment = text.substr(begin, end - begin);
    for (std::size_t pos = 0; pos < segment.size();) {
      const std::size_t next = split_next(split, segment, pos);
      on_piece(segment.substr(pos, next - pos));
      pos = next;
    }
    if (!match) break;
    on_special(text.substr(match->begin, match->end - match->begin), match->id);
    begin = match->end;
  }
  return stats;
}

Encoder::Encoder(const Tokenizer& tokenizer, EncodeOptions options, std::size_t cache_slots)
    : state_(std::make_unique<State>(tokenizer, std::move(options), cache_slots)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

Result<EncodeStats> Encoder::encode(std::string_view text, std::vector<TokenId>& out) {
  State& s = *state_;
  const Vocab& vocab = s.tokenizer.model_->vocab;
  const BpeMerger& merger = s.tokenizer.model_->merger;
  const std::size_t before = out.size();
  auto stats = s.visit(
      text,
      [&](std::string_view piece) {
        if (const auto known = s.cache.find(piece); !known.empty()) {
          out.insert(out.end(), known.begin(), known.end());
          return;
        }
        const std::size_t start = out.size();
        if (const auto whole = vocab.find(piece)) {
          out.push_back(*whole);
        } else {
          merger.merge(piece, s.scratch, out);
        }
        s.cache.put(piece, std::span<const TokenId>(out).subspan(start));
      },
      [&](std::string_view, TokenId id) { out.push_back(id); });
  if (stats) stats->tokens = out.size() - before;
  return stats;
}

Result<std::vector<std::string>> Encoder::pieces(std::string_view text) {
  std::vector<std::string> found;
  SX_TRY([[maybe_unused]] const EncodeStats stats,
         state_->visit(
             text, [&](std::string_view piece) { found.emplace_back(piece); },
             [&](std::string_view special, TokenId) { found.emplace_back(special); }));
  return found;
}

std::uint64_t Encoder::cache_hits() const { return state_->cache.hits(); }
std::uint64_t Encoder::cache_misses() const { return state_->cache.misses(); }

}  // namespace sx
