#include "sextant/token/vocab_training.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/rng.h"
#include "sextant/text/jsonl_writer.h"
#include "sextant/token/text_source.h"
#include "sextant/token/tokenizer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::string page(std::uint64_t idx) {
  const RandomStream stream(17, "page", idx);
  const std::vector<std::string> words = {"sea", "ship", "sail",  "sextant", "star", "the",
                                          "of",  "and",  "north", "wind's",  "漢字"};
  std::string text;
  for (std::size_t w = 0; w < 60; ++w) {
    text += words[stream.u64(w) % words.size()] + (stream.u64(1000 + w) % 9 == 0 ? ".\n" : " ");
  }
  return text;
}

// Two files of JSON lines (one compressed, one with lines that are no documents) and one of plain
// text.
std::vector<fs::path> make_inputs(const TempDir& dir) {
  auto writer = JsonlWriter::create(dir / "a.jsonl.zst").value();
  for (std::uint64_t i = 0; i < 40; ++i) {
    std::string line = "{\"id\":\"" + std::to_string(i) + "\",\"text\":";
    append_json_string(line, page(i));
    EXPECT_TRUE(writer.write_line(line + "}").ok());
  }
  EXPECT_TRUE(writer.commit().ok());
  std::string lines = "no json\n{\"text\": 1}\n";
  for (std::uint64_t i = 40; i < 60; ++i) {
    lines += "{\"text\":";
    append_json_string(lines, page(i));
    lines += "}\n";
  }
  EXPECT_TRUE(write_file_atomic(dir / "b.jsonl", lines).ok());
  std::string text;
  for (std::uint64_t i = 60; i < 80; ++i) text += page(i);
  EXPECT_TRUE(write_file_atomic(dir / "c.txt", text).ok());
  return {dir / "a.jsonl.zst", dir / "b.jsonl", dir / "c.txt"};
}

VocabTrainingOptions options_for(const TempDir& dir, const std::string& out) {
  VocabTrainingOptions options;
  options.bpe.vocab_size = 301;
  options.bpe.split = SplitFamily::kCl100k;
  options.inputs = {dir / "a.jsonl.zst", dir / "b.jsonl", dir / "c.txt"};
  options.out = dir / out;
  return options;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : {"vocab.tiktoken", "vocab.json", "train.json"}) {
    auto bytes = read_file(folder / name);
    EXPECT_TRUE(bytes.ok()) << name;
    if (bytes) files[name] = *bytes;
  }
  return files;
}

TEST(TextSource, DocumentsAndPlainText) {
  TempDir dir;
  const auto inputs = make_inputs(dir);
  TextSource source(inputs);
  std::vector<std::string> texts;
  while (true) {
    auto text = source.next();
    ASSERT_TRUE(text.ok()) << text.error().to_string();
    if (!*text) break;
    texts.push_back(**text);
  }
  ASSERT_EQ(texts.size(), 61u);
  EXPECT_EQ(texts[0], page(0));
  EXPECT_EQ(texts[59], page(59));
  EXPECT_EQ(source.bad_documents(), 2u);
  ASSERT_EQ(source.bad_examples().size(), 2u);
  EXPECT_NE(source.bad_examples()[1].find("b.jsonl:2"), std::string::npos)
      << source.bad_examples()[1];
  EXPECT_EQ(source.stored_bytes_read(), source.stored_bytes_total());
}

TEST(TextSource, SeekGoesToAnyPlace) {
  TempDir dir;
  const auto inputs = make_inputs(dir);
  TextSource source(inputs, "text", 300);
  std::vector<TextSource::Place> places;
  std::vector<std::string> texts;
  while (true) {
    places.push_back(source.place());
    auto text = source.next().value();
    if (!text) break;
    texts.push_back(*text);
  }
  EXPECT_GT(texts.size(), 70u);
  for (std::size_t i = 0; i < places.size(); i += 5) {
    TextSource again(inputs, "text", 300);
    ASSERT_TRUE(again.seek(places[i]).ok());
    const auto text = again.next().value();
    ASSERT_EQ(text.has_value(), i < texts.size());
    if (text) {
      EXPECT_EQ(*text, texts[i]) << i;
    }
  }
}

// Parts of plain text have the pieces of the whole, for every split rule.
TEST(TextSource, CutsChangeNoPiece) {
  TempDir dir;
  std::string text;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const RandomStream stream(23, "lines", i);
    const std::vector<std::string> ends = {"\n",  "\n",    "\n\n", " \n",  "\n ",
                                           ".\n", "'\n's", "\r\n", "/\n/", "\n\xC2\xA0"};
    text += "W" + std::to_string(stream.u64(0) % 1000) + ends[stream.u64(1) % ends.size()];
  }
  ASSERT_TRUE(write_file_atomic(dir / "x.txt", text).ok());
  for (const auto split : {SplitFamily::kR50k, SplitFamily::kCl100k, SplitFamily::kO200k}) {
    const auto pieces = [&](std::string_view part) {
      std::vector<std::string> found;
      for (std::size_t pos = 0; pos < part.size();) {
        const std::size_t end = split_next(split, part, pos);
        found.emplace_back(part.substr(pos, end - pos));
        pos = end;
      }
      return found;
    };
    TextSource source({dir / "x.txt"}, "text", 10);
    std::vector<std::string> found;
    std::size_t parts = 0;
    while (auto part = source.next().value()) {
      ++parts;
      for (std::string& piece : pieces(*part)) found.push_back(std::move(piece));
    }
    EXPECT_GT(parts, 30u);
    EXPECT_EQ(found, pieces(text)) << to_string(split);
  }
}

TEST(VocabTraining, ThreadsMemoryAndIntervalsChangeNothing) {
  TempDir dir;
  make_inputs(dir);
  auto report = train_vocab(options_for(dir, "one"));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->documents, 61u);
  EXPECT_EQ(report->documents_bad, 2u);
  EXPECT_EQ(report->vocab_size, 301u);
  EXPECT_EQ(report->merges, 44u);
  EXPECT_FALSE(fs::exists(dir / "one" / "state"));
  const auto expected = files_of(dir / "one");

  VocabTrainingOptions options = options_for(dir, "two");
  options.threads = 4;
  options.memory_bytes = 1;  // a file of counts for every batch
  options.interval_bytes = 1000;
  options.interval_merges = 3;
  ASSERT_TRUE(train_vocab(options).ok());
  EXPECT_EQ(files_of(dir / "two"), expected);

  const Tokenizer tokenizer = Tokenizer::load(dir / "one").value();
  EXPECT_EQ(tokenizer.eod_id(), TokenId{300});
  std::vector<TokenId> ids;
  ASSERT_TRUE(tokenizer.encode(page(1000), ids).ok());
  EXPECT_LT(ids.size(), page(1000).size() / 2);
  EXPECT_EQ(tokenizer.decode(ids).value(), page(1000));
}

TEST(VocabTraining, GoesOnAfterAStopAnywhere) {
  TempDir dir;
  make_inputs(dir);
  ASSERT_TRUE(train_vocab(options_for(dir, "whole")).ok());
  const auto expected = files_of(dir / "whole");
  VocabTrainingOptions options = options_for(dir, "stopped");
  options.interval_bytes = 4000;
  options.interval_merges = 20;
  int calls = 0, runs = 0;
  options.stop = [&] { return ++calls % 7 == 0; };
  while (true) {
    auto report = train_vocab(options);
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    ++runs;
    ASSERT_LT(runs, 100);
    if (report->stopped) continue;
    EXPECT_EQ(report->resumes, static_cast<std::uint64_t>(runs - 1));
    EXPECT_EQ(report->max_repeated_merges, 0u);  // each stop saved
    EXPECT_EQ(report->documents, 61u);
    EXPECT_EQ(report->documents_bad, 2u);
    break;
  }
  EXPECT_GT(runs, 5);
  EXPECT_EQ(files_of(dir / "stopped"), expected);
}

TEST(VocabTraining, ASecondCallFindsItComplete) {
  TempDir dir;
  make_inputs(dir);
  VocabTrainingOptions options = options_for(dir, "out");
  const auto first = train_vocab(options);
  const auto second = train_vocab(options);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->already_complete);
  EXPECT_EQ(second->fingerprint, first->fingerprint);
  EXPECT_EQ(second->tokens, first->tokens);
  options.bpe.vocab_size = 290;
  EXPECT_EQ(train_vocab(options).error().kind, ErrorKind::kInvalid);
  options.overwrite = true;
  EXPECT_EQ(train_vocab(options).value().vocab_size, 290u);
}

TEST(VocabTraining, BadInput) {
  TempDir dir;
  make_inputs(dir);
  VocabTrainingOptions options = options_for(dir, "out");
  options.inputs.push_back(dir / "absent.jsonl");
  EXPECT_EQ(train_vocab(options).error().kind, ErrorKind::kNotFound);
  options = options_for(dir, "out");
  options.bpe.vocab_size = 100;
  EXPECT_EQ(train_vocab(options).error().kind, ErrorKind::kInvalid);
  const std::string bytes = read_file(dir / "a.jsonl.zst").value();
  ASSERT_TRUE(write_file_atomic(dir / "cut.jsonl.zst", bytes.substr(0, bytes.size() / 2)).ok());
  options = options_for(dir, "out");
  options.inputs = {dir / "cut.jsonl.zst"};
  EXPECT_EQ(train_vocab(options).error().kind, ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace sx
