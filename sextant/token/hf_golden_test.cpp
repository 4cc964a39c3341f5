#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/text/utf8.h"
#include "sextant/token/hf_json.h"
#include "sextant/token/tokenizer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Ids = std::vector<TokenId>;

std::vector<nlohmann::json> golden_rows(const std::string& name) {
  std::ifstream file(test_data("tokenizer/small/" + name));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

// Tokenizers by file, each loaded once.
class SmallFiles {
 public:
  const Tokenizer& get(const std::string& name) {
    const auto at = loaded_.find(name);
    if (at != loaded_.end()) return at->second;
    return loaded_.emplace(name, Tokenizer::load(test_data("tokenizer/small/" + name)).value())
        .first->second;
  }
  std::size_t size() const { return loaded_.size(); }

 private:
  std::map<std::string, Tokenizer> loaded_;
};

// What a decoder of text gives, where ours gives bytes.
std::string as_text(const std::string& bytes) {
  std::uint64_t replaced = 0;
  return repair_utf8(bytes, replaced);
}

TEST(HuggingFaceGolden, AnswersOfTheOriginal) {
  SmallFiles files;
  for (const auto& row : golden_rows("huggingface.jsonl")) {
    const Tokenizer& tokenizer = files.get(row["file"]);
    const std::string text = row["text"];
    EncodeOptions options;
    options.special = SpecialHandling::kAllow;
    Ids ids;
    ASSERT_TRUE(tokenizer.encode(text, ids, options).ok());
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << row.dump();
    Encoder cached(tokenizer, options, 16);
    for (int pass = 0; pass < 2; ++pass) {
      Ids again;
      ASSERT_TRUE(cached.encode(text, again).ok());
      EXPECT_EQ(again, ids);
    }
    const std::string decoded = as_text(tokenizer.decode(ids).value());
    EXPECT_EQ(decoded, row["decoded"].is_string() ? row["decoded"].get<std::string>() : text)
        << row.dump();
    options.with_template = true;
    Ids whole;
    ASSERT_TRUE(tokenizer.encode(text, whole, options).ok());
    Ids wanted = ids;
    if (row.contains("with_template")) {
      const Ids before = row["with_template"].get<Ids>();
      wanted.insert(wanted.begin(), before.begin(), before.end());
    }
    EXPECT_EQ(whole, wanted) << row.dump();
  }
  EXPECT_EQ(files.size(), 5u);
}

TEST(SentencePieceGolden, AnswersOfTheLibrary) {
  SmallFiles files;
  std::size_t rows = 0;
  for (const auto& row : golden_rows("sentencepiece.jsonl")) {
    const Tokenizer& tokenizer = files.get(row["file"]);
    const std::string text = row["text"];
    Ids ids;
    ASSERT_TRUE(tokenizer.encode(text, ids).ok());
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << row.dump();
    EXPECT_EQ(tokenizer.decode(ids).value(),
              row["decoded"].is_string() ? row["decoded"].get<std::string>() : text);
    ++rows;
  }
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(rows, 878u);
}

TEST(HuggingFaceExport, RankFileThereAndBack) {
  for (const std::string name : {"r50k_base"}) {
    const Tokenizer original =
        Tokenizer::load(test_data("tokenizer/" + name + ".tiktoken")).value();
    const std::string json = format_hf_json(original.vocab());
    auto file = parse_hf_json(json, "export");
    ASSERT_TRUE(file.ok()) << file.error().to_string();
    const auto back = rank_vocab_of(*file);
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(back->fingerprint(), original.fingerprint());
    EXPECT_EQ(back->specials(), original.vocab().specials());
  }
}

}  // namespace
}  // namespace sx
