#include <algorithm>

#include "sextant/token/piece_encoder.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/text_policy.h"
#include "sextant/token/token_model.h"

namespace sx {
namespace {

std::vector<std::pair<std::string_view, TokenId>> tokens_of(const Vocab& vocab) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  tokens.reserve(vocab.num_ordinary());
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id) tokens.emplace_back(vocab.token(id), id);
  return tokens;
}

class RankModel final : public TokenModel {
 public:
  RankModel(Vocab vocab, const char* kind)
      : vocab_(std::move(vocab)),
        bpe_{BpeMerger(vocab_), TokenTable(tokens_of(vocab_))},
        kind_(kind) {}

  const char* kind() const override { return kind_; }
  std::size_t vocab_size() const override { return vocab_.vocab_size(); }
  Hash128 fingerprint() const override { return vocab_.fingerprint(); }
  const std::vector<SpecialToken>& specials() const override { return vocab_.specials(); }
  std::optional<std::string_view> bytes_of(TokenId id) const override {
    return vocab_.bytes_of(id);
  }
  std::size_t num_ordinary() const override { return vocab_.num_ordinary(); }
  const Vocab* vocab() const override { return &vocab_; }
  bool may_cut() const override {
    const SplitFamily family = vocab_.split().family();
    return bpe_.merger.num_pairs() == 0 ||
           (family != SplitFamily::kNone && family != SplitFamily::kPattern);
  }

  std::string decode(std::span<const TokenId> ids) const override {
    std::size_t size = 0;
    for (const TokenId id : ids) size += vocab_.bytes_of(id)->size();
    std::string text;
    text.reserve(size);
    for (const TokenId id : ids) text += *vocab_.bytes_of(id);
    return text;
  }
  std::vector<TokenId> encode_piece(std::string_view piece) const override {
    std::vector<TokenId> ids;
    PieceEncoder(bpe_, SplitFamily::kNone, 0).encode_piece(piece, ids);
    return ids;
  }
  std::unique_ptr<EncodeSession> session(const EncodeOptions& options,
                                         std::size_t cache_slots) const override;

  const ByteBpe& bpe() const { return bpe_; }

 private:
  Vocab vocab_;
  ByteBpe bpe_;
  const char* kind_;
};

class RankSession final : public EncodeSession {
 public:
  RankSession(const RankModel& model, const EncodeOptions& options, std::size_t cache_slots)
      : specials_(wanted_specials(model.specials(), options)),
        options_(options),
        encoder_(model.bpe(), model.vocab()->split(), cache_slots) {}

  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out) override {
    const std::size_t before = out.size();
    auto stats = visit_text(
        text, specials_, options_,
        [&](std::string_view segment) { return encoder_.encode(segment, out); },
        [&](std::string_view, TokenId id) { out.push_back(id); });
    return count_appended(std::move(stats), before, out);
  }

  Result<std::vector<std::string>> pieces(std::string_view text) override {
    std::vector<std::string> found;
    SX_TRY([[maybe_unused]] const EncodeStats stats,
           visit_text(
               text, specials_, options_,
               [&](std::string_view segment) {
                 return for_each_piece(encoder_.splitter(), segment,
                                       [&](std::string_view piece) { found.emplace_back(piece); });
               },
               [&](std::string_view special, TokenId) { found.emplace_back(special); }));
    return found;
  }

  std::uint64_t cache_hits() const override { return encoder_.cache_hits(); }
  std::uint64_t cache_misses() const override { return encoder_.cache_misses(); }

 private:
  SpecialScanner specials_;
  EncodeOptions options_;
  PieceEncoder encoder_;
};

std::unique_ptr<EncodeSession> RankModel::session(const EncodeOptions& options,
                                                  std::size_t cache_slots) const {
  return std::make_unique<RankSession>(*this, options, cache_slots);
}

}  // namespace

std::shared_ptr<const TokenModel> make_rank_model(Vocab vocab, const char* kind) {
  return std::make_shared<const RankModel>(std::move(vocab), kind);
}

}  // namespace sx
