#include "sextant/token/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/rng.h"
#include "sextant/token/bpe.h"
#include "sextant/token/bpe_trainer.h"
#include "sextant/token/piece_cache.h"
#include "sextant/token/special_tokens.h"
#include "sextant/token/tiktoken_file.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Ids = std::vector<TokenId>;

// A small vocabulary in the split rule given, learned from a few lines of text.
Tokenizer small_tokenizer(SplitFamily split = SplitFamily::kCl100k) {
  BpeTrainerOptions options;
  options.vocab_size = 420;
  options.split = split;
  options.specials = {"<|endoftext|>", "<|end|>", "<|end|>x"};
  PieceCounter counter(split);
  ThreadPool pool(1);
  const auto counted = counter.add(
      std::vector<std::string>{
          "the cat sat on the mat, the dog didn't.\n\nthe other cats sat there too   \n",
          "\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97 xxxxxxxxxxxxxxxx aaaa aaaaa 1234567 "
          "12345"},
      pool);
  EXPECT_TRUE(counted.ok());
  BpeTrainer trainer(options, counter.take_sorted());
  while (trainer.step()) {
  }
  return Tokenizer::from_vocab(trainer.vocab().value());
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  Ids ids;
  auto stats = tokenizer.encode(text, ids, options);
  EXPECT_TRUE(stats.ok()) << stats.error().to_string();
  return ids;
}

std::string random_bytes(std::uint64_t seed, std::uint64_t idx) {
  const RandomStream stream(seed, "token bytes", idx);
  const std::vector<std::string> words = {
      "the", " cat", " ", "\n", "'s", "<|endoftext|>", "<|end|>", "\xE6\xBC\xA2", "12", "xxxx"};
  std::string text;
  const std::size_t parts = stream.u64(0) % 40;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::uint64_t draw = stream.u64(i + 1);
    if (draw % 3 == 0) {
      text += static_cast<char>(draw >> 8 & 0xff);
    } else {
      text += words[(draw >> 8) % words.size()];
    }
  }
  return text;
}

// The definition, without any table: join the pair of lowest rank, leftmost first.
Ids naive_merge(const Vocab& vocab, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    std::size_t best = parts.size();
    TokenId best_rank = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = vocab.find(parts[i] + parts[i + 1]);
      if (rank && (best == parts.size() || *rank < best_rank)) {
        best = i;
        best_rank = *rank;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(*vocab.find(part));
  return ids;
}

TEST(BytesTokenizer, IdsAreByteValues) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer.vocab_size(), 257u);
  EXPECT_EQ(tokenizer.eod_id(), TokenId{256});
  EXPECT_EQ(encode(tokenizer, "hi\xFF"), (Ids{104, 105, 255}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{104, 105, 256}).value(), "hi<|endoftext|>");
  EXPECT_EQ(Tokenizer::load("bytes").value().fingerprint(), tokenizer.fingerprint());
  EXPECT_STREQ(tokenizer.kind(), "bytes");
}

TEST(Tokenizer, RoundTripOfAllBytes) {
  const std::uint64_t seed = 7;
  for (const auto split :
       {SplitFamily::kNone, SplitFamily::kR50k, SplitFamily::kCl100k, SplitFamily::kO200k}) {
    const Tokenizer tokenizer = small_tokenizer(split);
    for (std::uint64_t i = 0; i < 1500; ++i) {
      const std::string text = random_bytes(seed, i);
      const Ids ids = encode(tokenizer, text);
      ASSERT_EQ(tokenizer.decode(ids).value(), text) << "seed " << seed << " text " << i;
      ASSERT_TRUE(std::all_of(ids.begin(), ids.end(),
                              [&](TokenId id) { return id < tokenizer.vocab().num_ordinary(); }))
          << "a special token out of text, seed " << seed << " text " << i;
    }
    std::string all;
    for (int b = 0; b < 256; ++b) {
      const std::string byte(1, static_cast<char>(b));
      ASSERT_EQ(tokenizer.decode(encode(tokenizer, byte)).value(), byte);
      all += byte;
    }
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, all)).value(), all);
  }
}

TEST(Tokenizer, MergesAsDefined) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::uint64_t seed = 11;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::string piece = random_bytes(seed, i);
    if (i % 3 == 0) piece += std::string(70 + i, 'x') + piece;  // the long path
    if (tokenizer.vocab().find(piece)) continue;
    ASSERT_EQ(tokenizer.encode_piece(piece), naive_merge(tokenizer.vocab(), piece))
        << "seed " << seed << " piece " << i;
  }
}

TEST(Tokenizer, LongRunsInLinearithmicTime) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string text(1000000, 'x');
  const Ids ids = encode(tokenizer, text);
  EXPECT_EQ(tokenizer.decode(ids).value(), text);
  EXPECT_LE(ids.size(), 1000000u / 8);
}

TEST(Tokenizer, SpecialTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  const TokenId eod = *tokenizer.eod_id();
  const TokenId end = *tokenizer.vocab().special_id("<|end|>"),
                end_x = *tokenizer.vocab().special_id("<|end|>x");
  const std::string text = "a  <|endoftext|>  b<|end|>xx<|end|>";
  EncodeOptions allow;
  allow.special = SpecialHandling::kAllow;
  // The longest token that begins at a place wins, and a segment's end is an end of text for the
  // split rule.
  Ids expected = encode(tokenizer, "a  ");
  expected.push_back(eod);
  for (const TokenId id : encode(tokenizer, "  b")) expected.push_back(id);
  expected.push_back(end_x);
  for (const TokenId id : encode(tokenizer, "x")) expected.push_back(id);
  expected.push_back(end);
  EXPECT_EQ(encode(tokenizer, text, allow), expected);
  EXPECT_EQ(tokenizer.decode(expected).value(), text);

  allow.allowed = {"<|end|>"};
  const Ids some = encode(tokenizer, text, allow);
  EXPECT_EQ(std::count(some.begin(), some.end(), end), 2);
  EXPECT_EQ(std::count(some.begin(), some.end(), eod), 0);
  EXPECT_EQ(encode(tokenizer, "<|end|><|end|>", allow), (Ids{end, end}));

  EncodeOptions refuse;
  refuse.special = SpecialHandling::kError;
  Ids out = {1};
  const auto stats = tokenizer.encode(text, out, refuse);
  ASSERT_FALSE(stats.ok());
  EXPECT_EQ(stats.error().where, "byte 3");
  EXPECT_EQ(out, Ids{1});
  EXPECT_EQ(encode(tokenizer, "no such thing <|end|", refuse),
            encode(tokenizer, "no such thing <|end|"));
}

TEST(Tokenizer, InvalidBytes) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string text = "a\xF0\x9F\x91z\xED\xA0\x80\xFF";
  Ids ids;
  EXPECT_EQ(tokenizer.encode(text, ids).value().invalid_bytes, 7u);
  EXPECT_EQ(tokenizer.decode(ids).value(), text);
  EncodeOptions replace;
  replace.invalid = InvalidHandling::kReplace;
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, text, replace)).value(),
            "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EncodeOptions refuse;
  refuse.invalid = InvalidHandling::kError;
  Ids out;
  const auto stats = tokenizer.encode(text, out, refuse);
  ASSERT_FALSE(stats.ok());
  EXPECT_EQ(stats.error().where, "byte 1");
  EXPECT_TRUE(out.empty());
}

TEST(Tokenizer, DecodeOfUnassignedIds) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto beyond = static_cast<TokenId>(tokenizer.vocab_size());
  const auto result = tokenizer.decode(Ids{0, beyond});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().where, "index 1");
  EXPECT_EQ(tokenizer.decode_lossy(Ids{beyond}), "\xEF\xBF\xBD");
  EXPECT_FALSE(tokenizer.decode_offsets(Ids{beyond}).ok());
}

TEST(Tokenizer, OffsetsCountCharacters) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer.decode_offsets(encode(tokenizer, "a\xE6\xBC\xA2z")).value(),
            (std::vector<std::size_t>{0, 1, 1, 1, 2}));
}

TEST(Tokenizer, ThreadsAndCacheChangeNothing) {
  const Tokenizer tokenizer = small_tokenizer();
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 300; ++i) texts.push_back(random_bytes(3, i));
  std::vector<Ids> plain;
  for (const std::string& text : texts) plain.push_back(encode(tokenizer, text));
  for (const std::size_t threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(tokenizer.encode_batch(texts, pool).value(), plain) << threads;
  }
  for (const std::size_t slots : {0, 1, 2, 65536}) {
    Encoder encoder(tokenizer, {}, slots);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        Ids ids;
        ASSERT_TRUE(encoder.encode(texts[i], ids).ok());
        ASSERT_EQ(ids, plain[i]) << slots;
      }
    }
    EXPECT_EQ(encoder.cache_hits() == 0, slots == 0);
  }
}

TEST(Tokenizer, BatchGivesTheFirstError) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EncodeOptions refuse;
  refuse.special = SpecialHandling::kError;
  ThreadPool pool(2);
  const std::vector<std::string> texts = {"a", "xy<|endoftext|>", "<|endoftext|>"};
  const auto result = tokenizer.encode_batch(texts, pool, refuse);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().where, "byte 2");
}

TEST(Tokenizer, FingerprintTellsVocabulariesApart) {
  const Tokenizer tokenizer = small_tokenizer();
  const Vocab& base = tokenizer.vocab();
  std::vector<std::string> tokens;
  ASSERT_GT(base.num_ordinary(), 257u);
  for (TokenId id = 0; id < base.num_ordinary(); ++id) tokens.emplace_back(base.token(id));
  const auto same = Vocab::make(tokens, base.specials(), base.split());
  EXPECT_EQ(same.value().fingerprint(), base.fingerprint());
  EXPECT_FALSE(Vocab::make(tokens, {}, base.split()).value().fingerprint() == base.fingerprint());
  EXPECT_FALSE(Vocab::make(tokens, base.specials(), SplitFamily::kR50k).value().fingerprint() ==
               base.fingerprint());
  std::swap(tokens[256], tokens[257]);
  EXPECT_FALSE(Vocab::make(tokens, base.specials(), base.split()).value().fingerprint() ==
               base.fingerprint());
}

TEST(Vocab, RefusesWhatCannotEncode) {
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  const auto make = [](std::vector<std::string> tokens, std::vector<SpecialToken> specials) {
    return Vocab::make(std::move(tokens), std::move(specials), SplitFamily::kNone);
  };
  EXPECT_TRUE(make(bytes, {{"<s>", 1000}}).ok());
  EXPECT_EQ(make(bytes, {{"<s>", 1000}}).value().vocab_size(), 1001u);
  EXPECT_FALSE(make(bytes, {{"<s>", 255}}).ok());
  EXPECT_FALSE(make(bytes, {{"", 300}}).ok());
  EXPECT_FALSE(make(bytes, {{"<s>", 300}, {"<s>", 301}}).ok());
  auto fewer = bytes;
  fewer.pop_back();
  EXPECT_NE(make(fewer, {}).error().message.find("0xff"), std::string::npos);
  auto twice = bytes;
  twice.push_back("a");
  EXPECT_FALSE(make(twice, {}).ok());
  auto empty = bytes;
  empty.emplace_back();
  EXPECT_FALSE(make(empty, {}).ok());
}

TEST(PieceCache, TwoOfALineStay) {
  PieceCache cache(1);
  const auto find = [&](std::string_view piece) {
    const PieceKey key = piece_key(piece);
    const PieceCache::Slot* slot = cache.find(key, key.hash());
    if (slot == nullptr) return Ids{};
    const auto ids = cache.ids(*slot);
    return Ids(ids.begin(), ids.end());
  };
  const auto put = [&](std::string_view piece, const Ids& ids) {
    const PieceKey key = piece_key(piece);
    cache.put(key, key.hash(), ids);
  };
  EXPECT_TRUE(find("abc").empty());
  put("abc", {1, 2, 3});
  EXPECT_EQ(find("abc"), (Ids{1, 2, 3}));
  put("fifteen bytes..", {9});
  EXPECT_EQ(find("fifteen bytes.."), Ids{9});
  EXPECT_EQ(find("abc"), (Ids{1, 2, 3}));
  put(std::string_view("a\0", 2), {5});
  EXPECT_TRUE(find("a").empty());
  EXPECT_TRUE(find("abc").empty()) << "the oldest of three";
  EXPECT_EQ(find(std::string_view("a\0", 2)), Ids{5});
}

TEST(PieceCache, GrowsAndForgetsWithoutMixingUp) {
  PieceCache cache(std::size_t{1} << 17);
  EXPECT_EQ(cache.slots(), PieceCache::kFirstSlots);
  std::size_t known = 0;
  for (TokenId i = 0; i < 200000; ++i) {
    const std::string piece = std::to_string(i * 2654435761u);
    const PieceKey key = piece_key(piece);
    Ids ids(1 + i % 5, i);
    cache.put(key, key.hash(), ids);
    const PieceCache::Slot* slot = cache.find(key, key.hash());
    ASSERT_NE(slot, nullptr);
    const auto found = cache.ids(*slot);
    ASSERT_EQ(Ids(found.begin(), found.end()), ids);
  }
  EXPECT_EQ(cache.slots(), std::size_t{1} << 17);
  for (TokenId i = 0; i < 200000; ++i) {
    const PieceKey key = piece_key(std::to_string(i * 2654435761u));
    const PieceCache::Slot* slot = cache.find(key, key.hash());
    if (slot == nullptr) continue;
    ++known;
    const auto found = cache.ids(*slot);
    ASSERT_EQ(Ids(found.begin(), found.end()), Ids(1 + i % 5, i));
  }
  EXPECT_GT(known, 0u);
}

TEST(PieceCache, WideReadsGiveTheSameKey) {
  const std::string text = "0123456789abcdef";
  for (std::size_t size = 1; size <= PieceKey::kMaxBytes; ++size)
    EXPECT_EQ(piece_key_wide(text.data(), size), piece_key(text.substr(0, size))) << size;
}

TEST(PieceCache, LongPiecesComeBackUntilTheStoreIsFull) {
  LongPieceCache cache(4);
  const auto put = [&](const std::string& piece, const Ids& ids) {
    cache.put(piece, hash_bytes(piece), ids);
  };
  const auto find = [&](const std::string& piece) {
    const auto ids = cache.find(piece, hash_bytes(piece));
    return Ids(ids.begin(), ids.end());
  };
  const std::string first = "a piece of twenty-six byte", other = "b piece of twenty-six byte";
  EXPECT_TRUE(find(first).empty());
  put(first, {1, 2, 3, 4, 5});
  EXPECT_EQ(find(first), (Ids{1, 2, 3, 4, 5}));
  EXPECT_TRUE(find(other).empty());
  put(std::string(256, 'x'), {7});
  EXPECT_TRUE(find(std::string(256, 'x')).empty()) << "too long to be kept";
  for (int i = 0; i < 40; ++i) put("number " + std::to_string(i) + " of many pieces", {8, 9});
  EXPECT_TRUE(find(first).empty());
  EXPECT_TRUE(LongPieceCache(0).find(first, 1).empty());
}

TEST(TiktokenFile, WriteAndReadAgain) {
  TempDir dir;
  const Tokenizer tokenizer = small_tokenizer(SplitFamily::kO200k);
  const Vocab& vocab = tokenizer.vocab();
  ASSERT_TRUE(write_tiktoken(vocab, dir / "vocab.tiktoken").ok());
  const auto again = read_tiktoken(dir / "vocab.tiktoken");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->fingerprint(), vocab.fingerprint());
  EXPECT_EQ(format_tiktoken(*again), format_tiktoken(vocab));
  EXPECT_EQ(Tokenizer::load(dir.path()).value().fingerprint(), vocab.fingerprint());
  EXPECT_EQ(Tokenizer::load(dir / "vocab.tiktoken", "sextant").value().fingerprint(),
            vocab.fingerprint());
}

TEST(TiktokenFile, FirstLineIsKnown) {
  const std::string text = format_tiktoken(small_tokenizer().vocab());
  EXPECT_TRUE(text.starts_with("IQ== 0\nIg== 1\nIw== 2\n")) << text.substr(0, 30);
}

struct Damage {
  const char* name;
  std::string from, to;
  const char* message;
  int line;
};

TEST(TiktokenFile, DamageIsNamedByLine) {
  const std::string good = format_tiktoken(Tokenizer::bytes().vocab());
  ASSERT_TRUE(parse_tiktoken(good, "x").ok());
  EXPECT_TRUE(
      parse_tiktoken(good.substr(0, good.size() - 1), "x").ok());  // the final newline is optional
  const Damage cases[] = {
      {"no rank", "AQ== 1\n", "AQ==\n", "not `base64 SPACE rank`", 2},
      {"no number", "AQ== 1\n", "AQ== x\n", "not a number", 2},
      {"behind the rank", "AQ== 1\n", "AQ== 1 \n", "not a number", 2},
      {"carriage return", "AQ== 1\n", "AQ== 1\r\n", "not a number", 2},
      {"negative", "AQ== 1\n", "AQ== -1\n", "not a number", 2},
      {"huge", "AQ== 1\n", "AQ== 99999999999\n", "not a number", 2},
      {"gap", "AQ== 1\n", "AQ== 256\n", "too large", 2},
      {"twice", "AQ== 1\n", "AQ== 0\n", "given in line 1 already", 2},
      {"base64 letter", "AQ== 1\n", "A*== 1\n", "not base64", 2},
      {"base64 length", "AQ== 1\n", "AQ= 1\n", "not base64", 2},
      {"base64 spare bits", "AQ== 1\n", "AR== 1\n", "not base64", 2},
      {"empty token", "AQ== 1\n", " 1\n", "not base64", 2},
      {"same bytes", "AQ== 1\n", "AA== 1\n", "same bytes", 256},
      {"missing byte", "/w== 255\n", "AAE= 255\n", "0xff is no token", 256},
      {"blank line", "AQ== 1\n", "\nAQ== 1\n", "not `base64 SPACE rank`", 2},
  };
  for (const Damage& damage : cases) {
    std::string text = good;
    const std::size_t at = text.find(damage.from);
    ASSERT_NE(at, std::string::npos) << damage.name;
    text.replace(at, damage.from.size(), damage.to);
    const auto result = parse_tiktoken(text, "x");
    ASSERT_FALSE(result.ok()) << damage.name;
    EXPECT_EQ(result.error().kind, ErrorKind::kCorrupt);
    EXPECT_NE(result.error().message.find(damage.message), std::string::npos)
        << damage.name << ": " << result.error().message;
    EXPECT_EQ(result.error().where, "x:" + std::to_string(damage.line)) << damage.name;
  }
  EXPECT_FALSE(parse_tiktoken("", "x").ok());
  EXPECT_FALSE(parse_tiktoken(good.substr(0, good.size() / 2), "x").ok());
}

TEST(TiktokenFile, SideFile) {
  EXPECT_FALSE(parse_tiktoken_side("", "x").ok());
  EXPECT_FALSE(parse_tiktoken_side("[]", "x").ok());
  EXPECT_FALSE(parse_tiktoken_side("{\"pat_str\": 1}", "x").ok());
  EXPECT_FALSE(parse_tiktoken_side("{\"pat_str\": \"a\", \"special_tokens\": []}", "x").ok());
  const auto negative =
      parse_tiktoken_side("{\"pat_str\": \"a\", \"special_tokens\": {\"<s>\": -1}}", "x");
  ASSERT_FALSE(negative.ok());
  EXPECT_NE(negative.error().message.find("$.special_tokens[\"<s>\"]"), std::string::npos);
  EXPECT_EQ(parse_tiktoken_side("{\"pat_str\": \"a\"}", "x").value().pattern, "a");

  TempDir dir;
  const std::string ranks = format_tiktoken(Tokenizer::bytes().vocab());
  ASSERT_TRUE(write_file_atomic(dir / "v.tiktoken", ranks).ok());
  EXPECT_EQ(read_tiktoken(dir / "v.tiktoken").error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(write_file_atomic(dir / "v.json", "{\"pat_str\": \"\\\\w+\"}").ok());
  EXPECT_EQ(read_tiktoken(dir / "v.tiktoken").value().split().pattern(), "\\w+");
  ASSERT_TRUE(write_file_atomic(dir / "v.json", "{\"pat_str\": \"(\"}").ok());
  EXPECT_EQ(read_tiktoken(dir / "v.tiktoken").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(Tokenizer::load(dir / "absent.tiktoken").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(Tokenizer::load(dir / "v.json").error().kind, ErrorKind::kUnsupported)
      << "not a tokenizer.json";
  EXPECT_EQ(Tokenizer::load(dir / "v.tiktoken", "sentencepiece").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(Tokenizer::load(dir / "v.tiktoken", "wordpiece").error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace sx
