#include "sextant/token/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "sextant/base/check.h"
#include "sextant/token/hf_model.h"
#include "sextant/token/sentencepiece.h"
#include "sextant/token/tiktoken_file.h"

namespace sx {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
// What ends a document in the families whose files do not say it, most telling first.
constexpr std::string_view kEndNames[] = {kEndOfText,   "<|end_of_text|>", "</s>",
                                          "<|im_end|>", "<eos>",           "<|end_of_turn|>"};
constexpr std::string_view kLossyReplacement = "\xEF\xBF\xBD";

std::size_t count_char_starts(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

struct VocabFile {
  std::filesystem::path path;
  std::string_view kind;
};

// Which file, and which reader. Nothing when the name does not tell.
std::optional<VocabFile> find_vocab_file(const std::filesystem::path& path, std::string_view kind) {
  if (kind == "sextant") kind = "tiktoken";
  const VocabFile in_folder[] = {{"vocab.tiktoken", "tiktoken"},
                                 {"tokenizer.json", "hf"},
                                 {"tokenizer.model", "sentencepiece"},
                                 {"spiece.model", "sentencepiece"}};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const VocabFile& file : in_folder) {
      if ((kind == "auto" || kind == file.kind) &&
          std::filesystem::exists(path / file.path, ignored))
        return VocabFile{path / file.path, file.kind};
    }
    return VocabFile{path / (kind == "hf"              ? "tokenizer.json"
                             : kind == "sentencepiece" ? "tokenizer.model"
                                                       : "vocab.tiktoken"),
                     kind == "auto" ? "tiktoken" : kind};
  }
  if (kind != "auto") return VocabFile{path, kind};
  const std::string extension = path.extension().string();
  if (extension == ".json") return VocabFile{path, "hf"};
  if (extension == ".model") return VocabFile{path, "sentencepiece"};
  return VocabFile{path, "tiktoken"};
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& path, std::string_view kind) {
  if (kind == "bytes" || (kind == "auto" && path == "bytes")) return bytes();
  if (kind != "auto" && kind != "tiktoken" && kind != "sextant" && kind != "hf" &&
      kind != "sentencepiece") {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("tokenizer kind \"{}\" is not supported", kind), path.string()};
  }
  const VocabFile file = *find_vocab_file(path, kind);
  if (file.kind == "hf") {
    SX_TRY(auto model, load_hf_model(file.path));
    return Tokenizer(std::move(model));
  }
  if (file.kind == "sentencepiece") {
    SX_TRY(auto model, load_sentencepiece(file.path));
    return Tokenizer(std::move(model));
  }
  SX_TRY(Vocab vocab, read_tiktoken(file.path));
  return from_vocab(std::move(vocab));
}

Tokenizer Tokenizer::bytes() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  auto vocab = Vocab::make(std::move(tokens), {{std::string(kEndOfText), 256}}, SplitFamily::kNone);
  return Tokenizer(make_rank_model(std::move(vocab).value(), "bytes"));
}

Tokenizer Tokenizer::from_vocab(Vocab vocab) {
  return Tokenizer(make_rank_model(std::move(vocab), "tiktoken"));
}

Tokenizer Tokenizer::from_model(std::shared_ptr<const TokenModel> model) {
  SX_CHECK(model != nullptr, "a tokenizer without a model");
  return Tokenizer(std::move(model));
}

Result<EncodeStats> Tokenizer::encode(std::string_view text, std::vector<TokenId>& out,
                                      const EncodeOptions& options) const {
  return Encoder(*this, options, 0).encode(text, out);
}

Result<std::vector<std::vector<TokenId>>> Tokenizer::encode_batch(
    std::span<const std::string> texts, ThreadPool& pool, const EncodeOptions& options) const {
  std::vector<std::vector<TokenId>> ids(texts.size());
  std::vector<std::optional<Error>> errors(texts.size());
  // One encoder a thread, fed with small ranges as it gets free: the ids do not depend on which.
  constexpr std::size_t kRange = 16;
  std::atomic<std::size_t> next{0};
  pool.parallel_for(std::min(texts.size(), pool.num_threads() + 1), [&](std::size_t) {
    std::optional<Encoder> encoder;
    while (true) {
      const std::size_t first = next.fetch_add(kRange, std::memory_order_relaxed);
      if (first >= texts.size()) return;
      if (!encoder) encoder.emplace(*this, options);
      for (std::size_t i = first; i < std::min(first + kRange, texts.size()); ++i) {
        ids[i].reserve(texts[i].size() / 3);
        auto stats = encoder->encode(texts[i], ids[i]);
        if (!stats) errors[i] = stats.error();
      }
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return ids;
}

std::vector<TokenId> Tokenizer::encode_piece(std::string_view piece) const {
  return model_->encode_piece(piece);
}

Result<void> Tokenizer::check_assigned(std::span<const TokenId> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!model_->bytes_of(ids[i])) {
      return Error{ErrorKind::kInvalid, fmt::format("id {} is not assigned", ids[i]),
                   fmt::format("index {}", i)};
    }
  }
  return {};
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids) const {
  SX_TRY_VOID(check_assigned(ids));
  return model_->decode(ids);
}

std::string Tokenizer::decode_lossy(std::span<const TokenId> ids) const {
  std::string text;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (model_->bytes_of(ids[i])) continue;
    text += model_->decode(ids.subspan(begin, i - begin));
    text += kLossyReplacement;
    begin = i + 1;
  }
  return text + model_->decode(ids.subspan(begin));
}

Result<std::vector<std::size_t>> Tokenizer::decode_offsets(std::span<const TokenId> ids) const {
  SX_TRY_VOID(check_assigned(ids));
  if (!model_->decodes_by_bytes()) {
    return Error{ErrorKind::kUnsupported, "this decoder changes text across tokens: no offsets",
                 kind()};
  }
  std::vector<std::size_t> offsets;
  std::size_t chars = 0;
  for (const TokenId id : ids) {
    const std::string_view bytes = *model_->bytes_of(id);
    const bool inside =
        !bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 0xC0) == 0x80;
    offsets.push_back(inside && chars > 0 ? chars - 1 : chars);
    chars += count_char_starts(bytes);
  }
  return offsets;
}

std::size_t Tokenizer::vocab_size() const { return model_->vocab_size(); }
std::optional<TokenId> Tokenizer::eod_id() const {
  for (const std::string_view name : kEndNames) {
    for (const SpecialToken& special : model_->specials()) {
      if (special.text == name) return special.id;
    }
    if (has_vocab()) break;  // ours name it
  }
  return std::nullopt;
}
Hash128 Tokenizer::fingerprint() const { return model_->fingerprint(); }
const std::vector<SpecialToken>& Tokenizer::specials() const { return model_->specials(); }
std::optional<std::string_view> Tokenizer::bytes_of(TokenId id) const {
  return model_->bytes_of(id);
}
std::size_t Tokenizer::num_ordinary() const { return model_->num_ordinary(); }
bool Tokenizer::has_vocab() const { return model_->vocab() != nullptr; }
const Vocab& Tokenizer::vocab() const {
  SX_CHECK(has_vocab(), "a tokenizer of kind {} has no rank vocabulary", kind());
  return *model_->vocab();
}
bool Tokenizer::may_cut() const { return model_->may_cut(); }
std::vector<std::string> Tokenizer::notes() const { return model_->notes(); }
const char* Tokenizer::kind() const { return model_->kind(); }

Encoder::Encoder(const Tokenizer& tokenizer, EncodeOptions options, std::size_t cache_slots)
    : model_(tokenizer.model_), session_(model_->session(options, cache_slots)) {}

Result<EncodeStats> Encoder::encode(std::string_view text, std::vector<TokenId>& out) {
  return session_->encode(text, out);
}
Result<std::vector<std::string>> Encoder::pieces(std::string_view text) {
  return session_->pieces(text);
}
std::uint64_t Encoder::cache_hits() const { return session_->cache_hits(); }
std::uint64_t Encoder::cache_misses() const { return session_->cache_misses(); }

}  // namespace sx
