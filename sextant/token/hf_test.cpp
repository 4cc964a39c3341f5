#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sextant/token/hf_json.h"
#include "sextant/token/hf_model.h"
#include "sextant/token/hf_text.h"
#include "sextant/token/sentencepiece.h"
#include "sextant/token/tokenizer.h"

namespace sx {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

// Bytes in GPT-2's order, then the given tokens.
json byte_level_vocab(const std::vector<std::string>& more) {
  json vocab = json::object();
  TokenId id = 0;
  for (const unsigned char byte : gpt2_byte_order()) {
    const char c = static_cast<char>(byte);
    vocab[to_byte_level(std::string_view(&c, 1))] = id++;
  }
  for (const std::string& token : more) vocab[token] = id++;
  return vocab;
}

json small_file() {
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", byte_level_vocab({"ab", "bc", "abc", "xyz"})},
            {"merges", json::array({"b c", "a b", "a bc"})}}}};
}

Tokenizer load(const json& file) {
  auto parsed = parse_hf_json(file.dump(), "test");
  EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
  return Tokenizer::from_model(make_hf_model(std::move(parsed).value()));
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  Ids ids;
  EXPECT_TRUE(tokenizer.encode(text, ids, options).ok());
  return ids;
}

Error fault_of(const json& file) {
  auto parsed = parse_hf_json(file.dump(), "f.json");
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? Error{} : parsed.error();
}

TEST(HfModel, PriorityIsTheLineNotTheId) {
  // ab has the smaller id, b c the earlier line.
  EXPECT_EQ(ids_of(load(small_file()), "abc"), (Ids{258}));
  EXPECT_EQ(ids_of(load(small_file()), "abcb"), (Ids{258, 65}));
  json other = small_file();
  other["model"]["merges"] = json::array({"a b", "b c", "a bc"});
  EXPECT_EQ(ids_of(load(other), "abc"), (Ids{256, 66})) << "the pair (ab, c) is not in the list";
  other["model"]["ignore_merges"] = true;
  EXPECT_EQ(ids_of(load(other), "abc"), (Ids{258}));
  EXPECT_EQ(ids_of(load(other), "abcd"), (Ids{256, 66, 67}));
  EXPECT_EQ(ids_of(load(other), "xyz"), (Ids{259})) << "no merge makes it";
  EXPECT_EQ(ids_of(load(small_file()), "xyz"), (Ids{87, 88, 89}));
}

TEST(HfModel, KeepsEveryByte) {
  const Tokenizer tokenizer = load(small_file());
  std::string bytes;
  for (int b = 255; b >= 0; --b) bytes += static_cast<char>(b);
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, bytes)).value(), bytes);
  EXPECT_EQ(tokenizer.decode_offsets(ids_of(tokenizer, "a\u00e9")).value(),
            (std::vector<std::size_t>{0, 1, 1}));
}

TEST(HfModel, SpecialTokensAreTextUnlessAllowed) {
  json file = small_file();
  file["added_tokens"] = json::array({{{"id", 260}, {"content", "<s>"}, {"special", true}},
                                      {{"id", 261}, {"content", "abcabc"}, {"normalized", false}}});
  const Tokenizer tokenizer = load(file);
  EXPECT_EQ(ids_of(tokenizer, "<s>abcabc"), (Ids{27, 82, 29, 261}));
  EncodeOptions options;
  options.special = SpecialHandling::kAllow;
  EXPECT_EQ(ids_of(tokenizer, "<s>abcabc", options), (Ids{260, 261}));
  options.allowed = {"<other>"};
  EXPECT_EQ(ids_of(tokenizer, "<s>", options), (Ids{27, 82, 29}));
  options = {};
  options.special = SpecialHandling::kError;
  Ids ids{7};
  EXPECT_EQ(tokenizer.encode("x<s>", ids, options).error().where, "byte 1");
  EXPECT_EQ(ids, Ids{7});
  EXPECT_EQ(tokenizer.vocab_size(), 262u);
}

TEST(HfModel, FingerprintTellsFilesApart) {
  json other = small_file();
  other["model"]["ignore_merges"] = true;
  EXPECT_EQ(load(small_file()).fingerprint(), load(small_file()).fingerprint());
  EXPECT_FALSE(load(small_file()).fingerprint() == load(other).fingerprint());
  json padded = small_file();
  padded["padding"] = {{"strategy", "BatchLongest"}};
  EXPECT_EQ(load(padded).fingerprint(), load(small_file()).fingerprint());
  EXPECT_EQ(load(padded).notes().size(), 1u);
}

TEST(HfJson, EveryUnsupportedPartIsNamed) {
  const auto expect = [](json file, const json& patch, const std::string& path) {
    file.merge_patch(patch);
    const Error fault = fault_of(file);
    EXPECT_EQ(fault.kind, ErrorKind::kUnsupported) << patch.dump();
    EXPECT_EQ(fault.where, "f.json: " + path) << patch.dump();
  };
  const json file = small_file();
  expect(file, {{"model", {{"type", "Unigram"}}}}, "$.model.type");
  expect(file, {{"model", {{"type", "WordPiece"}}}}, "$.model.type");
  expect(file, {{"model", {{"dropout", 0.1}}}}, "$.model.dropout");
  expect(file, {{"model", {{"novelty", 1}}}}, "$.model.novelty");
  expect(file, {{"surprise", 1}}, "$.surprise");
  expect(file, {{"normalizer", {{"type", "Precompiled"}}}}, "$.normalizer.type");
  expect(file, {{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Nmt"}}}}}}},
         "$.normalizer.normalizers[0].type");
  expect(file, {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}}}, "$.pre_tokenizer.type");
  expect(file,
         {{"pre_tokenizer",
           {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}}},
         "$.pre_tokenizer.pattern.Regex");
  expect(file,
         {{"pre_tokenizer",
           {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Torn"}}}},
         "$.pre_tokenizer.behavior");
  expect(file, {{"post_processor", {{"type", "BertProcessing"}}}}, "$.post_processor.type");
  expect(file, {{"decoder", {{"type", "WordPiece"}}}}, "$.decoder.type");
}

TEST(HfJson, BrokenPartsAreNamed) {
  const auto expect = [](json file, const json& patch, const std::string& path) {
    file.merge_patch(patch);
    const Error fault = fault_of(file);
    EXPECT_EQ(fault.kind, ErrorKind::kCorrupt) << patch.dump();
    EXPECT_EQ(fault.where, "f.json: " + path) << patch.dump();
  };
  const json file = small_file();
  expect(file, {{"model", nullptr}}, "$.model");
  expect(file, {{"model", {{"vocab", {{"a", -1}}}}}}, "$.model.vocab.a");
  expect(file, {{"model", {{"vocab", {{"zzz", 258}}}}}}, "$.model.vocab.zzz");
  expect(file, {{"model", {{"merges", {"a"}}}}}, "$.model.merges[0]");
  expect(file, {{"model", {{"merges", {"a zz"}}}}}, "$.model.merges[0]");
  expect(file, {{"model", {{"unk_token", "<unk>"}}}}, "$.model.unk_token");
  expect(file, {{"model", {{"fuse_unk", 1}}}}, "$.model.fuse_unk");
  expect(file, {{"added_tokens", {{{"id", 3}, {"content", "<s>"}}}}}, "$.added_tokens[0]");
  EXPECT_EQ(parse_hf_json("[1", "x").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(parse_hf_json("{}", "x").error().where, "x: $.model");
}

TEST(HfJson, RanksOutOfAFileOnlyWhenItHasThem) {
  auto file = parse_hf_json(small_file().dump(), "x");
  EXPECT_EQ(rank_vocab_of(*file).error().kind, ErrorKind::kUnsupported);
}

HfPreTokenizer split_step(std::string_view pattern, HfSplitBehavior behavior, bool invert = false) {
  HfPreTokenizer step;
  step.kind = HfPreTokenizer::Kind::kSplit;
  step.pattern = Pattern::compile(pattern).value();
  step.behavior = behavior;
  step.invert = invert;
  return step;
}

TEST(HfText, SplitBehaviors) {
  using Strings = std::vector<std::string>;
  const auto cut = [](HfSplitBehavior behavior, bool invert = false) {
    return hf_pre_tokenize({split_step("-", behavior, invert)}, "the-final--countdown", true)
        .value();
  };
  // The example of the original's documentation.
  EXPECT_EQ(cut(HfSplitBehavior::kRemoved), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(cut(HfSplitBehavior::kIsolated), (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(cut(HfSplitBehavior::kMergedWithPrevious),
            (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(cut(HfSplitBehavior::kMergedWithNext), (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(cut(HfSplitBehavior::kContiguous), (Strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(cut(HfSplitBehavior::kRemoved, true), (Strings{"-", "-", "-"}));
}

TEST(HfText, OtherPreTokenizers) {
  using Strings = std::vector<std::string>;
  using Kind = HfPreTokenizer::Kind;
  const auto run = [](Kind kind, std::string_view text, auto change) {
    HfPreTokenizer step;
    step.kind = kind;
    change(step);
    return hf_pre_tokenize({step}, text, true).value();
  };
  const auto plain = [](HfPreTokenizer&) {};
  EXPECT_EQ(run(Kind::kWhitespace, "a_b, \u00e9!? x", plain),
            (Strings{"a_b", ",", "\u00e9", "!?", "x"}));
  EXPECT_EQ(run(Kind::kWhitespaceSplit, " a,  b\u3000c", plain), (Strings{"a,", "b", "c"}));
  EXPECT_EQ(run(Kind::kPunctuation, "a.b\u3002$", plain), (Strings{"a", ".", "b", "\u3002", "$"}));
  EXPECT_EQ(run(Kind::kDigits, "ab12c\u0663", plain), (Strings{"ab", "12", "c", "\u0663"}));
  EXPECT_EQ(run(Kind::kDigits, "ab12", [](HfPreTokenizer& s) { s.individual_digits = true; }),
            (Strings{"ab", "1", "2"}));
  const auto mark = [](HfPreTokenizer& step) { step.replacement = "\u2581"; };
  EXPECT_EQ(run(Kind::kMetaspace, "a b", mark), (Strings{"\u2581a", "\u2581b"}));
  EXPECT_EQ(run(Kind::kMetaspace, " a", mark), (Strings{"\u2581a"}));
  EXPECT_EQ(run(Kind::kMetaspace, "a b",
                [](HfPreTokenizer& step) {
                  step.replacement = "\u2581";
                  step.prepend = HfPrependScheme::kNever;
                  step.split = false;
                }),
            (Strings{"a\u2581b"}));
}

TEST(HfText, Normalizers) {
  using Kind = HfNormalizer::Kind;
  const auto run = [](Kind kind, std::string_view text) {
    HfNormalizer step;
    step.kind = kind;
    return hf_normalize({step}, text).value();
  };
  EXPECT_EQ(run(Kind::kNfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(run(Kind::kNfd, "\u00e9"), "e\u0301");
  EXPECT_EQ(run(Kind::kNfkc, "\ufb01\uff21"), "fiA");
  EXPECT_EQ(run(Kind::kNfkd, "\u00bd"), "1\u20442");
  EXPECT_EQ(run(Kind::kNfc, std::string("e\u0301\xff") + "e\u0301"), "\u00e9\xff\u00e9");
  EXPECT_EQ(run(Kind::kLowercase, "A\u0130\u03a3"), "ai\u0307\u03c3");
  EXPECT_EQ(run(Kind::kStrip, " \u3000a b\n"), "a b");
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  EXPECT_EQ(parse_sentencepiece("", "m").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(parse_sentencepiece("not a model", "m").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(parse_sentencepiece("not a model", "m").error().where, "m");
  EXPECT_EQ(load_sentencepiece("no/such.model").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace sx
