#include "sextant/token/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sextant/base/check.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/hf_text.h"
#include "sextant/token/piece_encoder.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/text_policy.h"

namespace sx {
namespace {

// How the pre-tokenizers look when pieces are raw bytes cut by one rule.
struct FastSplit {
  SplitRule rule;
  bool add_prefix_space = false;
};

std::optional<FastSplit> fast_split_of(const std::vector<HfPreTokenizer>& steps) {
  using Kind = HfPreTokenizer::Kind;
  if (steps.size() == 1 && steps[0].kind == Kind::kByteLevel) {
    return FastSplit{steps[0].use_regex ? SplitFamily::kR50k : SplitFamily::kNone,
                     steps[0].add_prefix_space};
  }
  if (steps.size() == 2 && steps[0].kind == Kind::kSplit && !steps[0].invert &&
      steps[0].behavior == HfSplitBehavior::kIsolated &&
      steps[0].rule.family() != SplitFamily::kNone && steps[1].kind == Kind::kByteLevel &&
      !steps[1].use_regex && !steps[1].add_prefix_space)
    return FastSplit{steps[0].rule, false};
  return std::nullopt;
}

struct AddedMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  TokenId id = 0;
};

class HfModel final : public TokenModel {
 public:
  explicit HfModel(HfFile file);

  const char* kind() const override { return "hf"; }
  std::size_t vocab_size() const override { return texts_.size(); }
  Hash128 fingerprint() const override { return fingerprint_; }
  const std::vector<SpecialToken>& specials() const override { return specials_; }
  std::size_t num_ordinary() const override { return num_ordinary_; }
  std::optional<std::string_view> bytes_of(TokenId id) const override {
    if (id >= texts_.size() || !assigned_[id]) return std::nullopt;
    return std::string_view(decodes_by_bytes_ ? bytes_[id] : texts_[id]);
  }
  bool decodes_by_bytes() const override { return decodes_by_bytes_; }
  std::vector<std::string> notes() const override { return file_.notes; }
  std::string decode(std::span<const TokenId> ids) const override {
    if (decodes_by_bytes_) {
      std::string text;
      for (const TokenId id : ids) text += bytes_[id];
      return text;
    }
    std::vector<std::string> tokens;
    for (const TokenId id : ids) tokens.push_back(texts_[id]);
    return hf_decode(file_.decoders, std::move(tokens));
  }
  std::vector<TokenId> encode_piece(std::string_view piece) const override {
    std::vector<TokenId> ids;
    BpeMerger::Scratch scratch;
    if (fast_) {
      PieceEncoder(*fast_, SplitFamily::kNone, 0).encode_piece(piece, ids);
    } else {
      encode_word(piece, scratch, ids);
    }
    return ids;
  }
  std::unique_ptr<EncodeSession> session(const EncodeOptions& options,
                                         std::size_t cache_slots) const override;

  /// Ids of one piece as the model sees it, by characters.
  void encode_word(std::string_view word, BpeMerger::Scratch& scratch,
                   std::vector<TokenId>& out) const;

  const HfFile& file() const { return file_; }
  const ByteBpe* fast() const { return fast_.get(); }
  const FastSplit& fast_split() const { return *fast_split_; }
  const HfAddedToken& added(TokenId id) const { return file_.added[added_index_.at(id)]; }

 private:
  void index_texts();
  void build_fast();
  std::optional<TokenId> find(std::string_view text) const {
    const auto at = ids_.find(text);
    return at == ids_.end() ? std::nullopt : std::optional<TokenId>(at->second);
  }
  bool add_fallback_bytes(std::string_view text, std::vector<TokenId>& parts) const;

  HfFile file_;
  std::unordered_map<std::string_view, TokenId> ids_;  // of the model's vocabulary; views of file_
  std::vector<std::string> texts_;                     // by id, added tokens too
  std::vector<bool> assigned_;
  std::vector<std::string> bytes_;  // texts_ after a lone ByteLevel decoder
  bool decodes_by_bytes_ = false;
  std::unordered_map<TokenId, std::size_t> added_index_;
  std::vector<SpecialToken> specials_;
  std::size_t num_ordinary_ = 0;
  Hash128 fingerprint_;
  std::optional<TokenId> byte_fallback_[256];
  std::optional<FastSplit> fast_split_;
  std::unique_ptr<const ByteBpe> fast_;
  std::unique_ptr<const BpeMerger> merger_;  // by characters
};

HfModel::HfModel(HfFile file) : file_(std::move(file)) {
  index_texts();
  for (int b = 0; b < 256; ++b) byte_fallback_[b] = find(fmt::format("<0x{:02X}>", b));
  build_fast();
  if (!fast_) {
    merger_ = std::make_unique<const BpeMerger>(std::span<const TokenId>(), file_.model.merges);
  }
  fingerprint_ = xxh3_128(file_.facts);
}

void HfModel::index_texts() {
  std::size_t size = 0;
  for (const auto& [text, id] : file_.model.tokens) size = std::max(size, std::size_t{id} + 1);
  for (const HfAddedToken& token : file_.added) size = std::max(size, std::size_t{token.id} + 1);
  texts_.resize(size);
  assigned_.resize(size);
  for (const auto& [text, id] : file_.model.tokens) {
    texts_[id] = text;
    assigned_[id] = true;
    ids_.emplace(text, id);
  }
  for (std::size_t i = 0; i < file_.added.size(); ++i) {
    const HfAddedToken& token = file_.added[i];
    texts_[token.id] = token.content;
    assigned_[token.id] = true;
    added_index_.emplace(token.id, i);
    if (token.special) specials_.push_back({token.content, token.id});
  }
  std::sort(specials_.begin(), specials_.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (std::size_t id = 0; id < size; ++id) {
    const bool special =
        std::any_of(specials_.begin(), specials_.end(), [&](const auto& s) { return s.id == id; });
    if (assigned_[id] && !special) num_ordinary_ = id + 1;
  }
  decodes_by_bytes_ =
      file_.decoders.size() == 1 && file_.decoders[0].kind == HfDecoder::Kind::kByteLevel;
  if (!decodes_by_bytes_) return;
  for (const std::string& text : texts_) bytes_.push_back(from_byte_level(text).value_or(text));
}

// The tables of the fast path, if the file allows it: all 256 bytes are tokens, so nothing is
// unknown.
void HfModel::build_fast() {
  fast_split_ = fast_split_of(file_.pre_tokenizers);
  const HfBpe& bpe = file_.model;
  if (!fast_split_ || !bpe.continuing_subword_prefix.empty() || !bpe.end_of_word_suffix.empty())
    return;
  TokenId byte_ids[256];
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    const auto id = find(to_byte_level(std::string_view(&byte, 1)));
    if (!id) return;
    byte_ids[b] = *id;
  }
  BpeMerger merger(byte_ids, bpe.merges);
  // A token that merging gives back may be looked up; others only where the file asks for it.
  std::vector<std::string> store;
  std::vector<TokenId> ids, merged;
  BpeMerger::Scratch scratch;
  for (const auto& [text, id] : bpe.tokens) {
    auto bytes = from_byte_level(text);
    if (!bytes || bytes->empty()) continue;
    merged.clear();
    if (!bpe.ignore_merges) merger.merge(*bytes, scratch, merged);
    if (!bpe.ignore_merges && (merged.size() != 1 || merged[0] != id)) continue;
    store.push_back(std::move(*bytes));
    ids.push_back(id);
  }
  std::vector<std::pair<std::string_view, TokenId>> whole;
  for (std::size_t i = 0; i < store.size(); ++i) whole.emplace_back(store[i], ids[i]);
  fast_ = std::make_unique<const ByteBpe>(ByteBpe{std::move(merger), TokenTable(whole)});
}

bool HfModel::add_fallback_bytes(std::string_view text, std::vector<TokenId>& parts) const {
  for (const char c : text) {
    if (!byte_fallback_[static_cast<unsigned char>(c)]) return false;
  }
  for (const char c : text) parts.push_back(*byte_fallback_[static_cast<unsigned char>(c)]);
  return true;
}

void HfModel::encode_word(std::string_view word, BpeMerger::Scratch& scratch,
                          std::vector<TokenId>& out) const {
  const HfBpe& bpe = file_.model;
  if (bpe.ignore_merges) {
    if (const auto whole = find(word)) {
      out.push_back(*whole);
      return;
    }
  }
  std::vector<TokenId> parts;
  bool unknown = false;  // an unknown part waits, to be joined by more of them
  for (std::size_t pos = 0; pos < word.size();) {
    const std::size_t size = scan_char(word, pos).size;
    std::string text(word.substr(pos, size));
    if (pos != 0) text = bpe.continuing_subword_prefix + text;
    pos += size;
    if (pos == word.size()) text += bpe.end_of_word_suffix;
    if (const auto id = find(text)) {
      if (unknown) parts.push_back(*bpe.unk);
      unknown = false;
      parts.push_back(*id);
    } else if (bpe.byte_fallback && add_fallback_bytes(text, parts)) {
      // As the original: a waiting unknown part stays behind these bytes.
    } else if (bpe.unk) {
      if (unknown && !bpe.fuse_unk) parts.push_back(*bpe.unk);
      unknown = true;
    }
  }
  if (unknown) parts.push_back(*bpe.unk);
  if (merger_) {
    merger_->merge_ids(parts, scratch, out);
  } else {
    fast_->merger.merge_ids(parts, scratch, out);
  }
}

class HfSession final : public EncodeSession {
 public:
  HfSession(const HfModel& model, const EncodeOptions& options, std::size_t cache_slots)
      : model_(model), options_(options) {
    if (model.fast() != nullptr) fast_.emplace(*model.fast(), model.fast_split().rule, cache_slots);
    keeps_ascii_ = hf_keeps_ascii(model.file().normalizers);
    std::vector<SpecialToken> raw, normalized;
    for (const HfAddedToken& token : model.file().added) {
      if (!token.normalized) {
        raw.push_back({token.content, token.id});
        continue;
      }
      auto text = hf_normalize(model.file().normalizers, token.content);
      if (text && !text->empty()) normalized.push_back({std::move(*text), token.id});
    }
    raw_ = SpecialScanner(std::move(raw));
    normalized_ = SpecialScanner(std::move(normalized));
  }

  Result<EncodeStats> encode(std::string_view text, std::vector<TokenId>& out) override {
    const std::size_t before = out.size();
    if (options_.with_template) append(model_.file().before, out);
    auto stats = visit(
        text,
        [&](std::string_view part, bool at_start) { return encode_part(part, at_start, out); },
        [&](std::string_view, TokenId id) { out.push_back(id); });
    if (options_.with_template) append(model_.file().after, out);
    return count_appended(std::move(stats), before, out);
  }

  Result<std::vector<std::string>> pieces(std::string_view text) override {
    std::vector<std::string> found;
    SX_TRY([[maybe_unused]] const EncodeStats stats,
           visit(
               text,
               [&](std::string_view part, bool at_start) -> Result<void> {
                 SX_TRY(std::vector<std::string> pieces,
                        hf_pre_tokenize(model_.file().pre_tokenizers, part, at_start));
                 for (std::string& piece : pieces)
                   found.push_back(fast_ ? from_byte_level(piece).value_or(piece) : piece);
                 return {};
               },
               [&](std::string_view added, TokenId) { found.emplace_back(added); }));
    return found;
  }

  std::uint64_t cache_hits() const override { return fast_ ? fast_->cache_hits() : 0; }
  std::uint64_t cache_misses() const override { return fast_ ? fast_->cache_misses() : 0; }

 private:
  static void append(const std::vector<TokenId>& ids, std::vector<TokenId>& out) {
    out.insert(out.end(), ids.begin(), ids.end());
  }

  // Whether an occurrence of this added token counts.
  bool wanted(const HfAddedToken& token) const {
    if (!token.special) return true;
    if (options_.special == SpecialHandling::kText) return false;
    return options_.allowed.empty() || std::find(options_.allowed.begin(), options_.allowed.end(),
                                                 token.content) != options_.allowed.end();
  }

  // Occurrences of added tokens in `text`, with the spaces they take.
  std::vector<AddedMatch> find_added(const SpecialScanner& scanner, std::string_view text) const {
    std::vector<AddedMatch> found;
    std::size_t taken = 0;  // end of the last match
    for (std::size_t from = 0;;) {
      const auto match = scanner.find(text, from);
      if (!match) break;
      from = match->end;
      const HfAddedToken& token = model_.added(match->id);
      if (!wanted(token)) continue;
      if (token.single_word && (hf_ends_with_word(text.substr(0, match->begin)) ||
                                hf_starts_with_word(text.substr(match->end))))
        continue;
      AddedMatch made{match->begin, match->end, match->id};
      if (token.lstrip)
        made.begin = std::max(made.begin - hf_spaces_at_end(text.substr(0, made.begin)), taken);
      if (token.rstrip) made.end += hf_spaces_at_start(text.substr(made.end));
      taken = made.end;
      found.push_back(made);
    }
    return found;
  }

  // Calls on_part(normalised text, is it at the start) and on_added(text, id) in order.
  template <class OnPart, class OnAdded>
  Result<EncodeStats> visit(std::string_view text, OnPart on_part, OnAdded on_added) {
    EncodeStats stats;
    std::string store;
    SX_TRY(text, apply_invalid_policy(text, options_.invalid, store, stats));
    std::size_t done = 0;
    const auto part_until = [&](std::size_t end) -> Result<void> {
      if (end <= done) return {};
      return visit_normalized(text.substr(done, end - done), done == 0, on_part, on_added);
    };
    for (const AddedMatch& match : find_added(raw_, text)) {
      SX_TRY_VOID(refuse_special(match, text));
      SX_TRY_VOID(part_until(match.begin));
      on_added(text.substr(match.begin, match.end - match.begin), match.id);
      done = match.end;
    }
    SX_TRY_VOID(part_until(text.size()));
    return stats;
  }

  Result<void> refuse_special(const AddedMatch& match, std::string_view text) const {
    if (options_.special != SpecialHandling::kError || !model_.added(match.id).special) return {};
    return special_in_text(text.substr(match.begin, match.end - match.begin), match.begin);
  }

  template <class OnPart, class OnAdded>
  Result<void> visit_normalized(std::string_view raw, bool at_start, OnPart& on_part,
                                OnAdded& on_added) {
    std::string store;
    std::string_view text = raw;
    const auto& normalizers = model_.file().normalizers;
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    if (!normalizers.empty() && !(keeps_ascii_ && std::all_of(raw.begin(), raw.end(), is_ascii))) {
      SX_TRY(store, hf_normalize(normalizers, raw));
      text = store;
    }
    std::size_t done = 0;
    if (!normalized_.empty()) {
      for (const AddedMatch& match : find_added(normalized_, text)) {
        SX_TRY_VOID(refuse_special(match, text));
        if (match.begin > done)
          SX_TRY_VOID(on_part(text.substr(done, match.begin - done), at_start && done == 0));
        on_added(text.substr(match.begin, match.end - match.begin), match.id);
        done = match.end;
      }
    }
    if (done < text.size()) SX_TRY_VOID(on_part(text.substr(done), at_start && done == 0));
    return {};
  }

  Result<void> encode_part(std::string_view part, bool at_start, std::vector<TokenId>& out) {
    if (fast_) {
      if (!model_.fast_split().add_prefix_space || part.starts_with(' '))
        return fast_->encode(part, out);
      return fast_->encode(" " + std::string(part), out);
    }
    SX_TRY(const std::vector<std::string> pieces,
           hf_pre_tokenize(model_.file().pre_tokenizers, part, at_start));
    for (const std::string& piece : pieces) model_.encode_word(piece, scratch_, out);
    return {};
  }

  const HfModel& model_;
  EncodeOptions options_;
  SpecialScanner raw_;
  SpecialScanner normalized_;
  bool keeps_ascii_ = true;
  std::optional<PieceEncoder> fast_;
  BpeMerger::Scratch scratch_;
};

std::unique_ptr<EncodeSession> HfModel::session(const EncodeOptions& options,
                                                std::size_t cache_slots) const {
  return std::make_unique<HfSession>(*this, options, cache_slots);
}

}  // namespace

std::shared_ptr<const TokenModel> make_hf_model(HfFile file) {
  return std::make_shared<const HfModel>(std::move(file));
}

Result<std::shared_ptr<const TokenModel>> load_hf_model(const std::filesystem::path& path) {
  SX_TRY(HfFile file, read_hf_json(path));
  return make_hf_model(std::move(file));
}

}  // namespace sx
