#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/token/bpe_trainer.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

constexpr std::size_t kNoLimit = std::size_t{1} << 20;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// First 16 hex digits of SHA-256 over all tokens in id order (u32 little-endian length, bytes),
// special tokens first.
std::string tokens_hash(const Vocab& vocab) {
  std::string bytes;
  const auto add = [&](std::string_view token) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(token.size() >> shift & 0xff));
    bytes += token;
  };
  for (const SpecialToken& special : vocab.specials()) add(special.text);
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id) add(vocab.token(id));
  return sha256_hex(bytes).substr(0, 16);
}

BpeTrainer train(const BpeTrainerOptions& options, const std::string& text, std::size_t threads) {
  PieceCounter counter(options.split, options.specials);
  ThreadPool pool(threads);
  EXPECT_TRUE(counter.add(std::vector<std::string>{text}, pool).ok());
  BpeTrainer trainer(options, counter.take_sorted());
  while (trainer.step()) {
  }
  return trainer;
}

TEST(BpeTrainerGolden, RecordedRuns) {
  std::ifstream file(test_data("tokenizer/vectors_train.jsonl"));
  std::string line;
  std::size_t rows = 0;
  while (std::getline(file, line)) {
    const auto row = nlohmann::json::parse(line);
    BpeTrainerOptions options;
    options.split = *parse_split_family(row["split"].get<std::string>());
    options.vocab_size = row["vocab_size"];
    options.min_frequency = row["min_frequency"];
    options.specials = row["special_tokens"].get<std::vector<std::string>>();
    options.max_token_length =
        row["longest_token"].is_null() ? kNoLimit : row["longest_token"].get<std::size_t>();
    options.tie = row["rule"] == "huggingface" ? TieRule::kSmallestIds : TieRule::kGreatestBytes;
    const BpeTrainer trainer = train(options, row["corpus"], 2);
    const Vocab vocab = trainer.vocab().value();
    std::vector<std::vector<std::string>> merges;
    std::vector<std::uint64_t> counts;
    for (const Merge& merge : trainer.merges()) {
      merges.push_back({hex(vocab.token(merge.left)), hex(vocab.token(merge.right))});
      counts.push_back(merge.count);
    }
    const std::string name = row["name"].get<std::string>() + ", " + row["rule"].get<std::string>();
    EXPECT_EQ(merges, row["merges_hex"].get<std::vector<std::vector<std::string>>>()) << name;
    EXPECT_EQ(counts, row["counts"].get<std::vector<std::uint64_t>>()) << name;
    EXPECT_EQ(trainer.unique_pieces(), row["unique_pieces"].get<std::size_t>()) << name;
    EXPECT_EQ(vocab.vocab_size(), row["tokens"].get<std::size_t>()) << name;
    EXPECT_EQ(tokens_hash(vocab), row["tokens_sha256_16"].get<std::string>()) << name;
    ++rows;
  }
  EXPECT_EQ(rows, 6u);
}

TEST(BpeTrainerGolden, WholeFiles) {
  BpeTrainerOptions options;
  options.vocab_size = 556;
  options.min_frequency = 1;
  options.specials = {};
  options.max_token_length = kNoLimit;
  options.split = SplitFamily::kR50k;
  const std::string html = read_file(test_data("html5lib/tree-construction/tests1.dat")).value();
  const BpeTrainer first = train(options, html, 1);
  EXPECT_EQ(first.unique_pieces(), 499u);
  EXPECT_EQ(first.merges().front().count, 3193u);
  EXPECT_EQ(first.merges().back().count, 6u);
  EXPECT_EQ(tokens_hash(first.vocab().value()), "5ddb3dbbe3e7d16f");
  options.split = SplitFamily::kCl100k;
  const std::string xml =
      read_file(test_data("charset/chardet/utf-8/anitabee.blogspot.com.xml")).value();
  const BpeTrainer second = train(options, xml, 2);
  EXPECT_EQ(second.merges().front().count, 422u);
  EXPECT_EQ(second.merges().back().count, 18u);
  EXPECT_EQ(tokens_hash(second.vocab().value()), "95f1a090d23511b5");
}

}  // namespace
}  // namespace sx
