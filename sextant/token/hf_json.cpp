#include "sextant/token/hf_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "sextant/base/fs.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{1} << 28;
constexpr int kMaxDepth = 8;  // of Sequence in Sequence
constexpr TokenId kMaxHfId = (TokenId{1} << 21) - 1;

// A place in the tree and how to complain about it.
struct Node {
  const json* value;
  std::string path;
  const std::string* source;

  Error fault(ErrorKind kind, std::string message) const {
    return Error{kind, std::move(message), *source + ": " + path};
  }
  Error corrupt(std::string message) const {
    return fault(ErrorKind::kCorrupt, std::move(message));
  }
  Error unsupported(std::string message) const {
    return fault(ErrorKind::kUnsupported, std::move(message));
  }
  bool is_null() const { return value == nullptr || value->is_null(); }
  Node child(const std::string& name) const {
    const json* found = nullptr;
    if (value != nullptr && value->is_object()) {
      const auto at = value->find(name);
      if (at != value->end()) found = &*at;
    }
    return {found, path + "." + name, source};
  }
  Node element(std::size_t i) const {
    return {&(*value)[i], fmt::format("{}[{}]", path, i), source};
  }

  Result<std::string> text() const {
    if (is_null() || !value->is_string()) return corrupt("a string is wanted here");
    return value->get<std::string>();
  }
  Result<bool> flag(bool fallback) const {
    if (is_null()) return fallback;
    if (!value->is_boolean()) return corrupt("true or false is wanted here");
    return value->get<bool>();
  }
  Result<std::uint64_t> number() const {
    if (is_null() || !value->is_number_unsigned()) return corrupt("a whole number is wanted here");
    return value->get<std::uint64_t>();
  }
  Result<TokenId> id() const {
    SX_TRY(const std::uint64_t number_given, number());
    if (number_given > kMaxHfId)
      return fault(ErrorKind::kLimit, fmt::format("id {} is above {}", number_given, kMaxHfId));
    return static_cast<TokenId>(number_given);
  }
  Result<std::string> type() const {
    if (is_null() || !value->is_object()) return corrupt("an object is wanted here");
    return child("type").text();
  }
  // A member that is none of `names` means something this reader does not know.
  Result<void> only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, member] : value->items()) {
      if (std::find(names.begin(), names.end(), name) == names.end() && !member.is_null())
        return child(name).unsupported("a member that is not known");
    }
    return {};
  }
  Result<std::vector<Node>> list() const {
    if (is_null() || !value->is_array()) return corrupt("an array is wanted here");
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < value->size(); ++i) nodes.push_back(element(i));
    return nodes;
  }
  Result<std::string> character() const {
    SX_TRY(std::string one, text());
    const ScannedChar c = scan_char(one, 0);
    if (c.size == 0 || !c.valid || c.size != one.size())
      return corrupt("one character is wanted here");
    return one;
  }
};

// {"String": "..."} or {"Regex": "..."}.
Result<Pattern> read_pattern(const Node& node) {
  if (node.is_null() || !node.value->is_object() || node.value->size() != 1)
    return node.corrupt("a pattern is {\"String\": …} or {\"Regex\": …}");
  if (const Node literal = node.child("String"); literal.value != nullptr) {
    SX_TRY(const std::string text, literal.text());
    if (text.empty()) return literal.unsupported("an empty string to look for");
    return Pattern::literal(text);
  }
  const Node regex = node.child("Regex");
  SX_TRY(const std::string text, regex.text());
  auto pattern = Pattern::compile(text);
  if (!pattern) return regex.unsupported(pattern.error().message);
  return pattern;
}

Result<HfPrependScheme> read_prepend_scheme(const Node& node) {
  const Node scheme = node.child("prepend_scheme");
  if (scheme.is_null()) {
    SX_TRY(const bool legacy, node.child("add_prefix_space").flag(true));
    return legacy ? HfPrependScheme::kAlways : HfPrependScheme::kNever;
  }
  SX_TRY(const std::string name, scheme.text());
  if (name == "always") return HfPrependScheme::kAlways;
  if (name == "first") return HfPrependScheme::kFirst;
  if (name == "never") return HfPrependScheme::kNever;
  return scheme.unsupported(fmt::format("prepend_scheme \"{}\"", name));
}

Result<void> read_normalizer(const Node& node, int depth, std::vector<HfNormalizer>& out) {
  SX_TRY(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth == 0) return node.unsupported("sequences inside each other too deeply");
    SX_TRY(const auto members, node.child("normalizers").list());
    for (const Node& member : members) SX_TRY_VOID(read_normalizer(member, depth - 1, out));
    return {};
  }
  using Kind = HfNormalizer::Kind;
  HfNormalizer made;
  if (type == "NFC" || type == "NFKC" || type == "NFD" || type == "NFKD" || type == "Lowercase") {
    made.kind = type == "NFC"    ? Kind::kNfc
                : type == "NFKC" ? Kind::kNfkc
                : type == "NFD"  ? Kind::kNfd
                : type == "NFKD" ? Kind::kNfkd
                                 : Kind::kLowercase;
    SX_TRY_VOID(node.only({"type"}));
  } else if (type == "Prepend") {
    made.kind = Kind::kPrepend;
    SX_TRY(made.content, node.child("prepend").text());
    SX_TRY_VOID(node.only({"type", "prepend"}));
  } else if (type == "Replace") {
    made.kind = Kind::kReplace;
    SX_TRY(made.pattern, read_pattern(node.child("pattern")));
    SX_TRY(made.content, node.child("content").text());
    SX_TRY_VOID(node.only({"type", "pattern", "content"}));
  } else if (type == "Strip") {
    made.kind = Kind::kStrip;
    SX_TRY(made.left, node.child("strip_left").flag(true));
    SX_TRY(made.right, node.child("strip_right").flag(true));
    SX_TRY_VOID(node.only({"type", "strip_left", "strip_right"}));
  } else {
    return node.child("type").unsupported(fmt::format("normalizer {}", type));
  }
  out.push_back(std::move(made));
  return {};
}

Result<HfSplitBehavior> read_behavior(const Node& node) {
  SX_TRY(const std::string name, node.text());
  constexpr std::pair<std::string_view, HfSplitBehavior> kNames[] = {
      {"Removed", HfSplitBehavior::kRemoved},
      {"Isolated", HfSplitBehavior::kIsolated},
      {"MergedWithPrevious", HfSplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", HfSplitBehavior::kMergedWithNext},
      {"Contiguous", HfSplitBehavior::kContiguous}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return node.unsupported(fmt::format("behavior {}", name));
}

Result<void> read_pre_tokenizer(const Node& node, int depth, std::vector<HfPreTokenizer>& out) {
  SX_TRY(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth == 0) return node.unsupported("sequences inside each other too deeply");
    SX_TRY(const auto members, node.child("pretokenizers").list());
    for (const Node& member : members) SX_TRY_VOID(read_pre_tokenizer(member, depth - 1, out));
    return {};
  }
  using Kind = HfPreTokenizer::Kind;
  HfPreTokenizer made;
  if (type == "ByteLevel") {
    made.kind = Kind::kByteLevel;
    SX_TRY(made.add_prefix_space, node.child("add_prefix_space").flag(true));
    SX_TRY(made.use_regex, node.child("use_regex").flag(true));
    SX_TRY_VOID(node.only({"type", "add_prefix_space", "use_regex", "trim_offsets"}));
  } else if (type == "Split") {
    made.kind = Kind::kSplit;
    SX_TRY(made.pattern, read_pattern(node.child("pattern")));
    if (const Node regex = node.child("pattern").child("Regex"); regex.value != nullptr) {
      SX_TRY(made.rule, SplitRule::from_pattern(made.pattern->text()));
    }
    SX_TRY(made.behavior, read_behavior(node.child("behavior")));
    SX_TRY(made.invert, node.child("invert").flag(false));
    SX_TRY_VOID(node.only({"type", "pattern", "behavior", "invert"}));
  } else if (type == "Digits") {
    made.kind = Kind::kDigits;
    SX_TRY(made.individual_digits, node.child("individual_digits").flag(false));
    SX_TRY_VOID(node.only({"type", "individual_digits"}));
  } else if (type == "Metaspace") {
    made.kind = Kind::kMetaspace;
    SX_TRY(made.replacement, node.child("replacement").character());
    SX_TRY(made.prepend, read_prepend_scheme(node));
    SX_TRY(made.split, node.child("split").flag(true));
    SX_TRY_VOID(node.only(
        {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"}));
  } else if (type == "Punctuation") {
    made.kind = Kind::kPunctuation;
    if (const Node behavior = node.child("behavior"); !behavior.is_null()) {
      SX_TRY(made.behavior, read_behavior(behavior));
    }
    SX_TRY_VOID(node.only({"type", "behavior"}));
  } else if (type == "Whitespace" || type == "WhitespaceSplit") {
    made.kind = type == "Whitespace" ? Kind::kWhitespace : Kind::kWhitespaceSplit;
    SX_TRY_VOID(node.only({"type"}));
  } else {
    return node.child("type").unsupported(fmt::format("pre_tokenizer {}", type));
  }
  out.push_back(std::move(made));
  return {};
}

Result<void> read_decoder(const Node& node, int depth, std::vector<HfDecoder>& out) {
  SX_TRY(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth == 0) return node.unsupported("sequences inside each other too deeply");
    SX_TRY(const auto members, node.child("decoders").list());
    for (const Node& member : members) SX_TRY_VOID(read_decoder(member, depth - 1, out));
    return {};
  }
  using Kind = HfDecoder::Kind;
  HfDecoder made;
  if (type == "ByteLevel") {
    made.kind = Kind::kByteLevel;
  } else if (type == "ByteFallback") {
    made.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    made.kind = Kind::kFuse;
  } else if (type == "Replace") {
    made.kind = Kind::kReplace;
    SX_TRY(made.pattern, read_pattern(node.child("pattern")));
    SX_TRY(made.content, node.child("content").text());
  } else if (type == "Strip") {
    made.kind = Kind::kStrip;
    SX_TRY(made.content, node.child("content").character());
    SX_TRY(made.start, node.child("start").number());
    SX_TRY(made.stop, node.child("stop").number());
  } else if (type == "Metaspace") {
    made.kind = Kind::kMetaspace;
    SX_TRY(made.replacement, node.child("replacement").character());
    SX_TRY(made.prepend, read_prepend_scheme(node));
  } else {
    return node.child("type").unsupported(fmt::format("decoder {}", type));
  }
  out.push_back(std::move(made));
  return {};
}

// The "single" template: what stands before and after the text.
Result<void> read_template(const Node& node, HfFile& file) {
  SX_TRY(const auto parts, node.child("single").list());
  bool seen_text = false;
  for (const Node& part : parts) {
    if (!part.value->is_object() || part.value->size() != 1)
      return part.corrupt("a part is {\"SpecialToken\": …} or {\"Sequence\": …}");
    if (part.child("Sequence").value != nullptr) {
      if (seen_text) return part.unsupported("a template with the text twice");
      seen_text = true;
      continue;
    }
    const Node token = part.child("SpecialToken");
    SX_TRY(const std::string name, token.child("id").text());
    SX_TRY(const auto ids, node.child("special_tokens").child(name).child("ids").list());
    for (const Node& one : ids) {
      SX_TRY(const TokenId id, one.id());
      (seen_text ? file.after : file.before).push_back(id);
    }
  }
  if (!seen_text) return node.child("single").unsupported("a template without the text");
  return {};
}

Result<void> read_post_processor(const Node& node, int depth, HfFile& file) {
  SX_TRY(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth == 0) return node.unsupported("sequences inside each other too deeply");
    SX_TRY(const auto members, node.child("processors").list());
    for (const Node& member : members) SX_TRY_VOID(read_post_processor(member, depth - 1, file));
    return {};
  }
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type != "TemplateProcessing")
    return node.child("type").unsupported(fmt::format("post_processor {}", type));
  if (!file.before.empty() || !file.after.empty())
    return node.unsupported("two templates in one sequence");
  return read_template(node, file);
}

Result<void> read_added_tokens(const Node& node, HfFile& file) {
  if (node.is_null()) return {};
  SX_TRY(const auto tokens, node.list());
  std::unordered_set<TokenId> ids;
  std::unordered_set<std::string> contents;
  for (const Node& token : tokens) {
    if (!token.value->is_object()) return token.corrupt("an object is wanted here");
    HfAddedToken made;
    SX_TRY(made.id, token.child("id").id());
    SX_TRY(made.content, token.child("content").text());
    SX_TRY(made.single_word, token.child("single_word").flag(false));
    SX_TRY(made.lstrip, token.child("lstrip").flag(false));
    SX_TRY(made.rstrip, token.child("rstrip").flag(false));
    SX_TRY(made.special, token.child("special").flag(false));
    SX_TRY(made.normalized, token.child("normalized").flag(!made.special));
    if (made.content.empty()) return token.child("content").corrupt("an added token without text");
    if (!ids.insert(made.id).second) return token.child("id").corrupt("an id that is there twice");
    if (!contents.insert(made.content).second)
      return token.child("content").corrupt("an added token that is there twice");
    file.added.push_back(std::move(made));
  }
  return {};
}

using TokenIds = std::unordered_map<std::string_view, TokenId>;

Result<void> read_vocab(const Node& node, HfBpe& bpe) {
  if (node.is_null() || !node.value->is_object()) return node.corrupt("an object is wanted here");
  bpe.tokens.reserve(node.value->size());
  for (const auto& [text, id] : node.value->items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMaxHfId)
      return node.child(text).corrupt("a token's id is not a number below 2^21");
    bpe.tokens.emplace_back(text, id.get<TokenId>());
  }
  std::sort(bpe.tokens.begin(), bpe.tokens.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second, a.first) < std::tie(b.second, b.first);
  });
  for (std::size_t i = 0; i + 1 < bpe.tokens.size(); ++i) {
    if (bpe.tokens[i].second == bpe.tokens[i + 1].second) {
      return node.child(bpe.tokens[i + 1].first)
          .corrupt(fmt::format("id {} is there twice", bpe.tokens[i].second));
    }
  }
  return {};
}

Result<void> read_merge(const Node& node, const TokenIds& ids, HfBpe& bpe) {
  std::string left, right;
  if (node.value->is_string()) {
    const auto line = node.value->get<std::string>();
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      return node.corrupt("a merge is two parts with one space between them");
    left = line.substr(0, space);
    right = line.substr(space + 1);
  } else {
    SX_TRY(const auto parts, node.list());
    if (parts.size() != 2) return node.corrupt("a merge has two parts");
    SX_TRY(left, parts[0].text());
    SX_TRY(right, parts[1].text());
  }
  if (!right.starts_with(bpe.continuing_subword_prefix))
    return node.corrupt("the right part lacks the continuing_subword_prefix");
  const auto left_id = ids.find(left), right_id = ids.find(right);
  const std::string joined = left + right.substr(bpe.continuing_subword_prefix.size());
  const auto joined_id = ids.find(joined);
  if (left_id == ids.end() || right_id == ids.end() || joined_id == ids.end())
    return node.corrupt("a merge speaks of a token that is not in the vocabulary");
  bpe.merges.push_back({left_id->second, right_id->second, joined_id->second});
  return {};
}

Result<void> read_model(const Node& node, HfBpe& bpe) {
  // Old files leave the type out.
  if (node.is_null() || !node.value->is_object()) return node.corrupt("an object is wanted here");
  if (const Node type = node.child("type"); type.value != nullptr) {
    SX_TRY(const std::string name, type.text());
    if (name == "Unigram") {
      return type.unsupported(
          "model Unigram: use the SentencePiece .model file that lies beside such a file");
    }
    if (name != "BPE") return type.unsupported(fmt::format("model {}", name));
  }
  SX_TRY_VOID(node.only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                         "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
                         "vocab", "merges", "cache_capacity"}));
  if (const Node dropout = node.child("dropout");
      !dropout.is_null() && !(dropout.value->is_number() && dropout.value->get<double>() == 0))
    return dropout.unsupported("dropout while encoding");
  for (const auto& [name, target] :
       {std::pair{"continuing_subword_prefix", &bpe.continuing_subword_prefix},
        std::pair{"end_of_word_suffix", &bpe.end_of_word_suffix}}) {
    if (const Node text = node.child(name); !text.is_null()) {
      SX_TRY(*target, text.text());
    }
  }
  SX_TRY(bpe.fuse_unk, node.child("fuse_unk").flag(false));
  SX_TRY(bpe.byte_fallback, node.child("byte_fallback").flag(false));
  SX_TRY(bpe.ignore_merges, node.child("ignore_merges").flag(false));
  SX_TRY_VOID(read_vocab(node.child("vocab"), bpe));
  TokenIds ids;
  for (const auto& [text, id] : bpe.tokens) ids.emplace(text, id);
  SX_TRY(const auto merges, node.child("merges").list());
  if (merges.size() > BpeMerger::kMaxMerges)
    return node.child("merges").fault(ErrorKind::kLimit, "too many merges");
  for (const Node& merge : merges) SX_TRY_VOID(read_merge(merge, ids, bpe));
  if (const Node unk = node.child("unk_token"); !unk.is_null()) {
    SX_TRY(const std::string text, unk.text());
    const auto at = ids.find(text);
    if (at == ids.end()) return unk.corrupt("unk_token is not in the vocabulary");
    bpe.unk = at->second;
  }
  return {};
}

Result<void> check_added_ids(const Node& root, const HfFile& file) {
  TokenIds by_text;
  std::unordered_map<TokenId, std::string_view> by_id;
  for (const auto& [text, id] : file.model.tokens) {
    by_text.emplace(text, id);
    by_id.emplace(id, text);
  }
  for (std::size_t i = 0; i < file.added.size(); ++i) {
    const HfAddedToken& token = file.added[i];
    const auto same_text = by_text.find(token.content);
    const auto same_id = by_id.find(token.id);
    if ((same_text != by_text.end() && same_text->second != token.id) ||
        (same_id != by_id.end() && same_id->second != token.content)) {
      return root.child("added_tokens")
          .element(i)
          .corrupt("the added token and the vocabulary disagree about its id");
    }
  }
  return {};
}

}  // namespace

Result<HfFile> parse_hf_json(std::string_view text, const std::string& source) {
  json tree = json::parse(text, nullptr, false);
  if (tree.is_discarded() || !tree.is_object())
    return Error{ErrorKind::kCorrupt, "not a JSON object", source};
  const Node root{&tree, "$", &source};
  HfFile file;
  SX_TRY_VOID(root.only({"version", "truncation", "padding", "added_tokens", "normalizer",
                         "pre_tokenizer", "post_processor", "decoder", "model"}));
  SX_TRY_VOID(read_model(root.child("model"), file.model));
  SX_TRY_VOID(read_added_tokens(root.child("added_tokens"), file));
  SX_TRY_VOID(check_added_ids(root, file));
  if (const Node node = root.child("normalizer"); !node.is_null())
    SX_TRY_VOID(read_normalizer(node, kMaxDepth, file.normalizers));
  if (const Node node = root.child("pre_tokenizer"); !node.is_null())
    SX_TRY_VOID(read_pre_tokenizer(node, kMaxDepth, file.pre_tokenizers));
  if (const Node node = root.child("post_processor"); !node.is_null())
    SX_TRY_VOID(read_post_processor(node, kMaxDepth, file));
  if (const Node node = root.child("decoder"); !node.is_null()) {
    file.has_decoder = true;
    SX_TRY_VOID(read_decoder(node, kMaxDepth, file.decoders));
  }
  for (const char* name : {"truncation", "padding"}) {
    if (!root.child(name).is_null())
      file.notes.push_back(fmt::format("$.{} is not applied: texts keep their length", name));
  }
  for (const char* name : {"version", "truncation", "padding"}) tree.erase(name);
  file.facts = fmt::format("sextant tokenizer.json 1\n{}\n", unicode_version()) +
               tree.dump(-1, ' ', false, json::error_handler_t::replace);
  return file;
}

Result<HfFile> read_hf_json(const std::filesystem::path& path) {
  SX_TRY(const std::string text, read_file(path, kMaxJsonBytes));
  return parse_hf_json(text, path.string());
}

}  // namespace sx
