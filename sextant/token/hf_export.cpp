#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sextant/token/hf_json.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

// All pairs of tokens whose concatenation is a token, by rank of the result, then of the parts.
std::vector<BpeMerge> pairs_of(const Vocab& vocab) {
  std::vector<BpeMerge> pairs;
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id) {
    const std::string_view token = vocab.token(id);
    const std::size_t first = pairs.size();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = vocab.find(token.substr(0, cut));
      if (!left) continue;
      if (const auto right = vocab.find(token.substr(cut))) pairs.push_back({*left, *right, id});
    }
    std::sort(pairs.begin() + static_cast<std::ptrdiff_t>(first), pairs.end(),
              [](const BpeMerge& a, const BpeMerge& b) {
                return std::tie(a.left, a.right) < std::tie(b.left, b.right);
              });
  }
  return pairs;
}

Error no_ranks(std::string why) {
  return Error{ErrorKind::kUnsupported, "the ids of this tokenizer.json are not ranks", why};
}

Result<SplitRule> rule_of(const std::vector<HfPreTokenizer>& parts) {
  using Kind = HfPreTokenizer::Kind;
  if (parts.empty() || parts.back().kind != Kind::kByteLevel)
    return no_ranks("$.pre_tokenizer does not end with ByteLevel");
  for (const HfPreTokenizer& part : parts) {
    if (part.add_prefix_space) return no_ranks("$.pre_tokenizer: add_prefix_space");
  }
  if (parts.size() == 1)
    return SplitRule(parts[0].use_regex ? SplitFamily::kR50k : SplitFamily::kNone);
  if (parts.size() == 2 && parts[0].kind == Kind::kSplit && !parts[1].use_regex &&
      !parts[0].invert && parts[0].behavior == HfSplitBehavior::kIsolated &&
      parts[0].rule.family() != SplitFamily::kNone)
    return parts[0].rule;
  return no_ranks("$.pre_tokenizer is not one Split and ByteLevel");
}

}  // namespace

std::string format_hf_json(const Vocab& vocab) {
  ordered_json tree;
  tree["version"] = "1.0";
  tree["truncation"] = nullptr;
  tree["padding"] = nullptr;
  tree["added_tokens"] = ordered_json::array();
  for (const SpecialToken& special : vocab.specials()) {
    tree["added_tokens"].push_back({{"id", special.id},
                                    {"content", special.text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  tree["normalizer"] = nullptr;
  const ordered_json byte_level{{"type", "ByteLevel"},
                                {"add_prefix_space", false},
                                {"trim_offsets", true},
                                {"use_regex", false}};
  if (vocab.split().family() == SplitFamily::kNone) {
    tree["pre_tokenizer"] = byte_level;
  } else {
    const ordered_json split{{"type", "Split"},
                             {"pattern", {{"Regex", std::string(vocab.split().pattern())}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
    tree["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", ordered_json::array({split, byte_level})}};
  }
  tree["post_processor"] = nullptr;
  tree["decoder"] = byte_level;
  ordered_json model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", false},
                     {"byte_fallback", false},
                     {"ignore_merges", true}};
  std::vector<std::string> texts;
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id)
    texts.push_back(to_byte_level(vocab.token(id)));
  // Written by hand: an ordered object of 200,000 members would be searched at every insertion.
  std::string vocab_text = "{", merges_text = "[";
  for (TokenId id = 0; id < texts.size(); ++id)
    vocab_text += fmt::format("{}{}:{}", id == 0 ? "" : ",", ordered_json(texts[id]).dump(), id);
  for (const BpeMerge& pair : pairs_of(vocab)) {
    merges_text +=
        fmt::format("{}[{},{}]", merges_text.size() == 1 ? "" : ",",
                    ordered_json(texts[pair.left]).dump(), ordered_json(texts[pair.right]).dump());
  }
  std::string model_text = model.dump();
  model_text.pop_back();
  model_text += ",\"vocab\":" + vocab_text + "},\"merges\":" + merges_text + "]}";
  std::string text = tree.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  text.pop_back();
  return text + ",\"model\":" + model_text + "}\n";
}

Result<Vocab> rank_vocab_of(const HfFile& file) {
  if (!file.normalizers.empty()) return no_ranks("$.normalizer");
  SX_TRY(SplitRule rule, rule_of(file.pre_tokenizers));
  const HfBpe& bpe = file.model;
  if (!bpe.continuing_subword_prefix.empty() || !bpe.end_of_word_suffix.empty())
    return no_ranks("$.model: a prefix or suffix of subwords");
  std::vector<SpecialToken> specials;
  for (const HfAddedToken& token : file.added) {
    if (token.single_word || token.lstrip || token.rstrip || token.normalized || !token.special)
      return no_ranks(fmt::format("$.added_tokens: \"{}\" has flags", token.content));
    specials.push_back({token.content, token.id});
  }
  std::vector<std::string> tokens;
  for (const auto& [text, id] : bpe.tokens) {
    const bool added = std::any_of(specials.begin(), specials.end(),
                                   [&, wanted = id](const auto& s) { return s.id == wanted; });
    if (added) continue;
    auto bytes = from_byte_level(text);
    if (!bytes) return no_ranks(fmt::format("$.model.vocab: token {} is not byte-level", id));
    if (id != tokens.size()) return no_ranks(fmt::format("$.model.vocab: no id {}", tokens.size()));
    tokens.push_back(std::move(*bytes));
  }
  auto vocab = Vocab::make(std::move(tokens), std::move(specials), std::move(rule));
  if (!vocab) return no_ranks(vocab.error().message);
  const std::vector<BpeMerge> pairs = pairs_of(*vocab);
  if (pairs.size() != bpe.merges.size()) {
    return no_ranks(fmt::format("$.model.merges has {} pairs; ranks imply {}", bpe.merges.size(),
                                pairs.size()));
  }
  std::vector<BpeMerge> listed = bpe.merges;
  if (!std::is_sorted(listed.begin(), listed.end(),
                      [](const auto& a, const auto& b) { return a.result < b.result; }))
    return no_ranks("$.model.merges is not in the order of the ids");
  const auto by_parts = [](const BpeMerge& a, const BpeMerge& b) {
    return std::tie(a.result, a.left, a.right) < std::tie(b.result, b.left, b.right);
  };
  std::sort(listed.begin(), listed.end(), by_parts);
  if (listed != pairs) return no_ranks("$.model.merges lacks pairs that ranks imply");
  return vocab;
}

}  // namespace sx
