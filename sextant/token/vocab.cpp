#include "sextant/token/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>

#include "sextant/token/byte_hash.h"
#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {

constexpr TokenId kEmpty = 0xffffffff;

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8)
    out.push_back(static_cast<char>(value >> shift & 0xff));
}

constexpr std::array<unsigned char, 256> make_gpt2_order() {
  std::array<unsigned char, 256> order{};
  std::size_t count = 0;
  const auto printable = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  for (int b = 0; b < 256; ++b) {
    if (printable(b)) order[count++] = static_cast<unsigned char>(b);
  }
  for (int b = 0; b < 256; ++b) {
    if (!printable(b)) order[count++] = static_cast<unsigned char>(b);
  }
  return order;
}
constexpr std::array<unsigned char, 256> kGpt2Order = make_gpt2_order();

Result<void> check_specials(const std::vector<SpecialToken>& specials, std::size_t num_ordinary) {
  std::unordered_set<std::string> texts;
  for (const SpecialToken& special : specials) {
    if (special.text.empty()) return Error{ErrorKind::kInvalid, "a special token has no text", ""};
    if (special.id < num_ordinary) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("special token {} has id {}, which is an ordinary token's",
                               special.text, special.id),
                   ""};
    }
    if (special.id > (TokenId{1} << 30)) {
      return Error{ErrorKind::kLimit,
                   fmt::format("id {} of special token {} is too large", special.id, special.text),
                   ""};
    }
    if (!texts.insert(special.text).second) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("special token {} is there twice", special.text), ""};
    }
  }
  return {};
}

}  // namespace

std::span<const unsigned char, 256> gpt2_byte_order() { return kGpt2Order; }

Result<Vocab> Vocab::make(std::vector<std::string> tokens, std::vector<SpecialToken> specials,
                          SplitRule split) {
  if (tokens.size() > kMaxTokens) {
    return Error{ErrorKind::kLimit,
                 fmt::format("{} tokens; at most {} are possible", tokens.size(), kMaxTokens), ""};
  }
  SX_TRY_VOID(check_specials(specials, tokens.size()));
  Vocab vocab;
  vocab.split_ = std::move(split);
  vocab.offsets_.reserve(tokens.size() + 1);
  vocab.offsets_.push_back(0);
  for (const std::string& token : tokens) {
    if (vocab.blob_.size() + token.size() > 0xffffffffu) {
      return Error{ErrorKind::kLimit, "the tokens hold more than 4 GiB", ""};
    }
    vocab.blob_ += token;
    vocab.offsets_.push_back(static_cast<std::uint32_t>(vocab.blob_.size()));
  }
  SX_TRY_VOID(vocab.index_tokens());
  std::stable_sort(specials.begin(), specials.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  vocab.vocab_size_ = specials.empty() ? tokens.size() : std::size_t{specials.back().id} + 1;
  vocab.specials_ = std::move(specials);
  return vocab;
}

Result<void> Vocab::index_tokens() {
  table_.assign(std::bit_ceil(num_ordinary() * 2 + 2), kEmpty);
  mask_ = table_.size() - 1;
  for (TokenId id = 0; id < num_ordinary(); ++id) {
    const std::string_view bytes = token(id);
    if (bytes.empty()) return Error{ErrorKind::kInvalid, fmt::format("token {} is empty", id), ""};
    std::size_t slot = hash_bytes(bytes) & mask_;
    for (; table_[slot] != kEmpty; slot = (slot + 1) & mask_) {
      if (token(table_[slot]) == bytes) {
        return Error{ErrorKind::kInvalid,
                     fmt::format("tokens {} and {} are the same bytes", table_[slot], id), ""};
      }
    }
    table_[slot] = id;
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    if (!find(std::string_view(&byte, 1))) {
      return Error{ErrorKind::kInvalid, fmt::format("the single byte 0x{:02x} is no token", b), ""};
    }
  }
  return {};
}

std::optional<TokenId> Vocab::special_id(std::string_view text) const {
  for (const SpecialToken& special : specials_) {
    if (special.text == text) return special.id;
  }
  return std::nullopt;
}

std::optional<std::string_view> Vocab::bytes_of(TokenId id) const {
  if (id < num_ordinary()) return token(id);
  const auto at = std::lower_bound(
      specials_.begin(), specials_.end(), id,
      [](const SpecialToken& special, TokenId wanted) { return special.id < wanted; });
  if (at == specials_.end() || at->id != id) return std::nullopt;
  return std::string_view(at->text);
}

std::optional<TokenId> Vocab::find(std::string_view bytes) const {
  for (std::size_t slot = hash_bytes(bytes) & mask_; table_[slot] != kEmpty;
       slot = (slot + 1) & mask_) {
    if (token(table_[slot]) == bytes) return table_[slot];
  }
  return std::nullopt;
}

Hash128 Vocab::fingerprint() const {
  std::string facts =
      fmt::format("sextant vocabulary 1\n{}\n{}\n", unicode_version(), split_.pattern());
  append_u32(facts, static_cast<std::uint32_t>(specials_.size()));
  for (const SpecialToken& special : specials_) {
    append_u32(facts, special.id);
    append_u32(facts, static_cast<std::uint32_t>(special.text.size()));
    facts += special.text;
  }
  append_u32(facts, static_cast<std::uint32_t>(num_ordinary()));
  for (TokenId id = 0; id < num_ordinary(); ++id) {
    append_u32(facts, static_cast<std::uint32_t>(token(id).size()));
    facts += token(id);
  }
  return xxh3_128(facts);
}

}  // namespace sx
