#include "sextant/token/sentencepiece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>

#include "sextant/base/fs.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/text_policy.h"

namespace sx {
namespace {

constexpr std::uint64_t kMaxModelBytes = std::uint64_t{64} << 20;

class SentencePieceModel final : public TokenModel {
 public:
  static Result<std::shared_ptr<const TokenModel>> make(std::string_view bytes,
                                                        const std::string& source) {
    auto model = std::make_shared<SentencePieceModel>();
    sentencepiece::util::Status loaded;
    try {
      loaded =
          model->processor_.LoadFromSerializedProto(absl::string_view(bytes.data(), bytes.size()));
    } catch (const std::exception& e) {  // its index refuses some pieces, a zero byte for one, so
      return Error{ErrorKind::kCorrupt, fmt::format("not a SentencePiece model: {}", e.what()),
                   source};
    }
    if (!loaded.ok()) {
      std::string why = loaded.ToString();
      std::replace(why.begin(), why.end(), '\n', ' ');
      return Error{ErrorKind::kCorrupt, "not a SentencePiece model: " + why, source};
    }
    if (model->processor_.GetPieceSize() <= 0)
      return Error{ErrorKind::kCorrupt, "a SentencePiece model without pieces", source};
    model->fingerprint_ = xxh3_128("sextant sentencepiece 1\n" + std::string(bytes));
    const int size = model->processor_.GetPieceSize();
    for (int id = 0; id < size; ++id) {
      model->texts_.push_back(model->text_of(id));
      if (model->processor_.IsControl(id))
        model->specials_.push_back({model->processor_.IdToPiece(id), static_cast<TokenId>(id)});
    }
    return std::shared_ptr<const TokenModel>(std::move(model));
  }

  const char* kind() const override { return "sentencepiece"; }
  std::size_t vocab_size() const override { return texts_.size(); }
  Hash128 fingerprint() const override { return fingerprint_; }
  const std::vector<SpecialToken>& specials() const override { return specials_; }
  std::size_t num_ordinary() const override { return texts_.size(); }
  std::optional<std::string_view> bytes_of(TokenId id) const override {
    if (id >= texts_.size()) return std::nullopt;
    return std::string_view(texts_[id]);
  }
  bool decodes_by_bytes() const override { return false; }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    // Only fails for an id outside the model, which the caller has excluded.
    (void)processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    return text;
  }
  std::vector<TokenId> encode_piece(std::string_view piece) const override {
    std::vector<TokenId> ids;
    append_ids(piece, ids);
    return ids;
  }
  std::unique_ptr<EncodeSession> session(const EncodeOptions& options,
                                         std::size_t cache_slots) const override;

  bool append_ids(std::string_view text, std::vector<TokenId>& out) const {
    std::vector<int> ids;
    if (!processor_.Encode(absl::string_view(text.data(), text.size()), &ids).ok()) return false;
    out.insert(out.end(), ids.begin(), ids.end());
    return true;
  }
  std::vector<std::string> pieces_of(std::string_view text) const {
    std::vector<std::string> pieces;
    (void)processor_.Encode(absl::string_view(text.data(), text.size()), &pieces);
    return pieces;
  }
  std::optional<TokenId> bos() const {
    return processor_.bos_id() < 0 ? std::nullopt : std::optional<TokenId>(processor_.bos_id());
  }

 private:
  // The piece as it stands in text: marks as spaces, a byte piece as its byte.
  std::string text_of(int id) const {
    const std::string piece = processor_.IdToPiece(id);
    if (processor_.IsByte(id) && piece.size() == 6)
      return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
    constexpr std::string_view kMark = "\xE2\x96\x81";
    std::string text;
    for (std::size_t pos = 0; pos < piece.size();) {
      const bool mark = piece.compare(pos, kMark.size(), kMark) == 0;
      text += mark ? ' ' : piece[pos];
      pos += mark ? kMark.size() : 1;
    }
    return text;
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> texts_;
  std::vector<SpecialToken> specials_;
  Hash128 fingerprint_;
};

class SentencePieceSession final : public EncodeSession {
 public:
  SentencePieceSession(const SentencePieceModel& model, const EncodeOptions& options)
      : model_(model), options_(options), specials_(wanted_specials(model.specials(), options)) {}

  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out) override {
    const std::size_t before = out.size();
    if (options_.with_template && model_.bos()) out.push_back(*model_.bos());
    auto stats = visit_text(
        text, specials_, options_,
        [&](std::string_view part) -> Result<void> {
          if (model_.append_ids(part, out)) return {};
          return Error{ErrorKind::kInvalid, "libsentencepiece does not accept the text", ""};
        },
        [&](std::string_view, TokenId id) { out.push_back(id); });
    return count_appended(std::move(stats), before, out);
  }

  Result<std::vector<std::string>> pieces(std::string_view text) override {
    std::vector<std::string> found;
    SX_TRY([[maybe_unused]] const EncodeStats stats,
           visit_text(
               text, specials_, options_,
               [&](std::string_view part) -> Result<void> {
                 for (std::string& piece : model_.pieces_of(part))
                   found.push_back(std::move(piece));
                 return {};
               },
               [&](std::string_view special, TokenId) { found.emplace_back(special); }));
    return found;
  }

 private:
  const SentencePieceModel& model_;
  EncodeOptions options_;
  SpecialScanner specials_;
};

std::unique_ptr<EncodeSession> SentencePieceModel::session(const EncodeOptions& options,
                                                           std::size_t) const {
  return std::make_unique<SentencePieceSession>(*this, options);
}

}  // namespace

Result<std::shared_ptr<const TokenModel>> parse_sentencepiece(std::string_view bytes,
                                                              const std::string& source) {
  if (bytes.empty()) return Error{ErrorKind::kCorrupt, "an empty file", source};
  if (bytes.size() > kMaxModelBytes)
    return Error{ErrorKind::kLimit, fmt::format("a model of {} bytes", bytes.size()), source};
  return SentencePieceModel::make(bytes, source);
}

Result<std::shared_ptr<const TokenModel>> load_sentencepiece(const std::filesystem::path& path) {
  SX_TRY(const std::string bytes, read_file(path, kMaxModelBytes));
  return parse_sentencepiece(bytes, path.string());
}

}  // namespace sx
