#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/token/tokenizer.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Ids = std::vector<TokenId>;

class TiktokenGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"r50k_base", "cl100k_base", "o200k_base"}) {
      auto tokenizer = Tokenizer::load(test_data(std::string("tokenizer/") + name + ".tiktoken"));
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
      tokenizers().emplace(name, *tokenizer);
    }
  }
  static std::map<std::string, Tokenizer>& tokenizers() {
    static std::map<std::string, Tokenizer> all;
    return all;
  }
  static Ids encode(const std::string& name, std::string_view text,
                    const EncodeOptions& options = {}) {
    Ids ids;
    auto stats = tokenizers().at(name).encode(text, ids, options);
    EXPECT_TRUE(stats.ok()) << stats.error().to_string();
    return ids;
  }
  // "count, first 16 hex digits of SHA-256 over the ids as u32 little-endian".
  static std::string digest(const Ids& ids) {
    return std::to_string(ids.size()) + ", " + sha256_16(ids);
  }
};

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST_F(TiktokenGolden, RecordedVectors) {
  std::ifstream file(test_data("tokenizer/vectors.jsonl"));
  std::string line;
  std::size_t rows = 0;
  while (std::getline(file, line)) {
    const auto row = nlohmann::json::parse(line);
    const std::string name = row["encoding"];
    const std::string text =
        row.contains("text") ? row["text"].get<std::string>() : from_hex(row["bytes_hex"]);
    EncodeOptions options;
    if (row["special"] == "all") options.special = SpecialHandling::kAllow;
    if (row.value("invalid", "bytes") == "replace") options.invalid = InvalidHandling::kReplace;
    const Ids ids = row.value("split", true) ? encode(name, text, options)
                                             : tokenizers().at(name).encode_piece(text);
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 1688u);
}

TEST_F(TiktokenGolden, LongRuns) {
  struct Row {
    std::string text;
    const char *r50k, *cl100k, *o200k;
  };
  const auto times = [](std::string_view part, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += part;
    return text;
  };
  const Row rows[] = {
      {times("\n", 10000), "5000, a6850fe21230c502", "313, feb2856855308e61",
       "625, 6edc9f7054327e8d"},
      {times("a", 10000), "2500, 653a57ce0f3f5864", "1250, 2f14ab74b413bdd6",
       "1250, f24bf19580e7ae1f"},
      {times(" ", 10000), "10000, a4e384b91490bb50", "79, b538710f89495818",
       "79, 356f41d4e4c13709"},
      {" " + times("^", 10000) + "\n", "2503, 6a3ff1b65ed3f50b", "2503, 128da11f65d58f76",
       "1254, ca2add4acbfbba8c"},
      {times("0", 10000), "625, cc8abbc4f3e2d8e7", "3334, 850d7c67b0387e36",
       "3334, e87e27915c7b6502"},
      {times("'s", 10000), "10000, b37c4d9f8d50f0cb", "10000, 1a0df1ccfd400ddc",
       "10000, 3b6c450abe097fc7"},
      {times("x", 1000000), "125000, e4ef9c562d5d68a8", "125000, 0845aae5eb7e1297",
       "125000, 2682c0b054ccbd97"},
      {times("a", 200), "50, f731a782e928ceda", "25, 9a88377d65c50cf4", "25, 3ea0c51a30f033cf"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(digest(encode("r50k_base", row.text)), row.r50k);
    EXPECT_EQ(digest(encode("cl100k_base", row.text)), row.cl100k);
    EXPECT_EQ(digest(encode("o200k_base", row.text)), row.o200k);
  }
}

TEST_F(TiktokenGolden, WholeFiles) {
  struct Row {
    const char *path, *r50k, *cl100k, *o200k;
  };
  const Row rows[] = {
      {"charset/chardet/utf-8/_ude_greek.txt", "650, 7ad31b948de36b12", "528, 4d8d748ec05e7bb6",
       "213, eb70d48a695d9f26"},
      {"charset/chardet/utf-8/_ude_russian.txt", "1310, 0cc86881445d280c", "602, 1103dbc09a18511d",
       "352, 84e29f439ef55179"},
      {"charset/chardet/utf-8/_ude_he1.txt", "769, ef53e0547f608493", "643, 9b417d1dd2f410fe",
       "281, 2fa4e1a15f33b6c3"},
      {"charset/chardet/utf-8/anitabee.blogspot.com.xml", "14688, f7597b3ca14bb66e",
       "12367, 0a2ced1dda1173ee", "11523, 59e3f9aefbf8b9cc"},
      {"charset/chardet/utf-8/linuxbox.hu.xml", "6618, ab791ecabee4d4d4", "5184, deed50f1aef7f2d9",
       "4835, cc1145c1abc498d5"},
      {"warc/whirlwind/whirlwind.warc.wet", "2266, 1b7cfea3bea3f07f", "1916, 8cd9aac73352c848",
       "1744, 54f48aa1e552193f"},
      {"html5lib/tree-construction/tests1.dat", "19578, 45242fe33a627e08",
       "13350, 6b67ecb7e7c6accc", "13355, 199f687237eb3077"},
      {"html5lib/tokenizer/namedEntities.test", "769807, 5d1c39f97325f1f3",
       "216998, 8c76954f55e03ed3", "216452, 4f9186a024a7974e"},
      {"tokenizer/o200k_base.json", "294, 6c26a64b86895d7c", "256, 2eda74e7ea73695c",
       "238, 7b07d431c3dd3483"},
      {"extraction/trafilatura/evaldata.json", "464484, f66573efd46747d8",
       "249627, 4ec2d286acf73463", "236380, a421e6c6015a4b8c"},
      {"html5lib/tokenizer/test3.test", "149649, b4484d961c8ac72a", "114202, 4ab38d9d246b64de",
       "115391, 8504217c515314cb"},
  };
  for (const Row& row : rows) {
    const auto text = read_file(test_data(row.path));
    ASSERT_TRUE(text.ok()) << row.path;
    EXPECT_EQ(digest(encode("r50k_base", *text)), row.r50k) << row.path;
    EXPECT_EQ(digest(encode("cl100k_base", *text)), row.cl100k) << row.path;
    EXPECT_EQ(digest(encode("o200k_base", *text)), row.o200k) << row.path;
  }
}

TEST_F(TiktokenGolden, Offsets) {
  struct Row {
    std::string text;
    std::vector<std::size_t> offsets;
  };
  const Row rows[] = {
      {"hello world", {0, 5}},
      {"hello world<|endoftext|> green cow", {0, 5, 11, 24, 30}},
      {"我非常渴望与人工智能一起工作", {0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 13}},
      {"நடிகர் சூர்யா", {0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 9, 10, 11, 12, 12}},
      {" Ġ除", {0, 1}},
  };
  EncodeOptions allow;
  allow.special = SpecialHandling::kAllow;
  for (const Row& row : rows) {
    EXPECT_EQ(tokenizers()
                  .at("cl100k_base")
                  .decode_offsets(encode("cl100k_base", row.text, allow))
                  .value(),
              row.offsets)
        << row.text;
  }
}

TEST_F(TiktokenGolden, VocabulariesAreWhole) {
  struct Row {
    const char* name;
    std::size_t ordinary, size;
    TokenId eod;
    TokenId gap;
  };
  for (const Row& row : {Row{"r50k_base", 50256, 50257, 50256, 50257},
                         Row{"cl100k_base", 100256, 100277, 100257, 100256},
                         Row{"o200k_base", 199998, 200019, 199999, 199998}}) {
    const Tokenizer& tokenizer = tokenizers().at(row.name);
    EXPECT_EQ(tokenizer.vocab().num_ordinary(), row.ordinary);
    EXPECT_EQ(tokenizer.vocab_size(), row.size);
    EXPECT_EQ(tokenizer.eod_id(), row.eod);
    EXPECT_FALSE(tokenizer.decode(Ids{row.gap}).ok());
    for (TokenId id = 0; id < 256; ++id)
      EXPECT_EQ(static_cast<unsigned char>(tokenizer.vocab().token(id)[0]), gpt2_byte_order()[id]);
    std::size_t longest = 0;
    for (TokenId id = 0; id < row.ordinary; ++id)
      longest = std::max(longest, tokenizer.vocab().token(id).size());
    EXPECT_EQ(longest, 128u);
  }
}

}  // namespace
}  // namespace sx
