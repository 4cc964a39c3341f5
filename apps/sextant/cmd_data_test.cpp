// sextant data as a user meets it: what the sub-verbs print and how they end.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sextant/base/fs.h"
#include "tests/support/run_shell.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

class DataCommand : public testing::Test {
 protected:
  ShellOutcome run(const std::string& line) {
    return run_shell("'" SX_PROGRAM "' " + line, folder_.path());
  }
  /// What a line of `data` prints, one JSON value a line.
  std::vector<nlohmann::json> json(const std::string& line) {
    const ShellOutcome outcome = run("data " + line + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<nlohmann::json> values;
    for (std::size_t at = 0; at < outcome.out.size();) {
      const std::size_t end = outcome.out.find('\n', at);
      values.push_back(nlohmann::json::parse(outcome.out.substr(at, end - at)));
      at = end + 1;
    }
    return values;
  }
  /// A token file of bytes, one document a line of `texts`.
  void pack(const std::string& name, const std::vector<std::string>& texts) {
    std::string lines;
    for (const std::string& text : texts) lines += "{\"text\": \"" + text + "\"}\n";
    ASSERT_TRUE(write_file_atomic(folder_ / (name + ".jsonl"), lines).ok());
    const ShellOutcome outcome =
        run("tokenize pack " + name + ".jsonl --tokenizer bytes --output-prefix " + name +
            " --out run-" + name);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  TempDir folder_;
};

TEST_F(DataCommand, OrderAndWhereAgreeInBothModes) {
  for (const std::string mode : {"native", "megatron"}) {
    const std::string settings = " --preset tiny --set data.paths=demo --set data.mode=" + mode;
    const auto lines = json("order --from 100 --count 3" + settings);
    ASSERT_EQ(lines.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(lines[i]["position"], 100 + i);
      const auto places = json("where --key " + lines[i]["key"].get<std::string>() + settings);
      ASSERT_EQ(places.size(), 1u);
      EXPECT_EQ(places[0]["position"], 100 + i) << mode;
      EXPECT_EQ(places[0]["step"], lines[i]["step"]);
    }
  }
}

TEST_F(DataCommand, BuildMakesTheCacheAndNamesAnEmptyPart) {
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) texts.push_back("page number " + std::to_string(i));
  pack("pages", texts);
  const std::string build =
      "build --preset tiny --set data.mode=megatron --set tokenizer.kind=bytes --set "
      "training.seq_len=32 --set data.paths=pages --set data.split=";
  const auto splits = json(build + "80,20,0");
  ASSERT_EQ(splits.size(), 2u);
  EXPECT_EQ(splits[0]["members"][0]["sequences"], (std::vector<int>{0, 40}));
  EXPECT_TRUE(fs::exists(folder_ / "pages/cache/GPTDataset_indices"));
  EXPECT_EQ(json(build + "80,20,0"), splits);
  const ShellOutcome empty = run("data " + build + "999,1,0");
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.err.find("SX2-030"), std::string::npos) << empty.err;
}

TEST_F(DataCommand, DiffNamesTheFirstDifferenceAndCatShowsIt) {
  pack("a", {"same", "xa"});
  pack("b", {"same", "xb"});
  EXPECT_EQ(run("data diff a a").code, 0);
  const ShellOutcome other = run("data diff a b");
  EXPECT_EQ(other.code, 5);
  EXPECT_EQ(other.out, "sequence 1, token 1: 97, 98\n");
  EXPECT_TRUE(run("data cat b --doc 1 --tokenizer bytes").out.starts_with("xb"));
  EXPECT_EQ(run("data cat b --doc 2").code, 2);
  EXPECT_EQ(json("stats a")[0]["tokens"], 8);
}

}  // namespace
}  // namespace sx
