#include "sextant/data/pack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <set>

#include "sextant/base/rng.h"
#include "sextant/data/demo_text.h"
#include "sextant/data/held_out.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/data/pack_state.h"
#include "sextant/text/jsonl_writer.h"
#include "sextant/token/tokenizer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

constexpr std::int32_t kEndOfDocument = 256;

std::string json_line(const std::string& id, const std::string& text) {
  return nlohmann::json{{"id", id}, {"text", text}}.dump();
}

void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  auto writer = JsonlWriter::create(path).value();
  for (const std::string& line : lines) ASSERT_TRUE(writer.write_line(line).ok());
  ASSERT_TRUE(writer.commit().ok());
}

/// Two inputs of pages that share a footer (a long line) now and then.
std::vector<fs::path> write_pages(const TempDir& dir, int pages) {
  std::vector<std::string> lines;
  for (int i = 0; i < pages; ++i) {
    std::string text = demo_document(3, static_cast<std::uint64_t>(i));
    if (i % 3 == 0)
      text += "This page was made from the sources of the manual on " + std::to_string(i % 2) +
              " May.\n";
    lines.push_back(json_line("page-" + std::to_string(i), text));
  }
  const auto half = lines.begin() + pages / 2;
  write_lines(dir / "a.jsonl.zst", {lines.begin(), half});
  write_lines(dir / "b.jsonl", {half, lines.end()});
  return {dir / "a.jsonl.zst", dir / "b.jsonl"};
}

PackOptions pack_options(const std::vector<fs::path>& inputs, const std::string& prefix) {
  PackOptions options;
  options.inputs = inputs;
  options.prefix = prefix;
  options.eod_id = kEndOfDocument;
  options.interval_bytes = 8000;
  return options;
}

std::string all_outputs(const std::string& prefix) {
  std::string bytes;
  for (const char* part : {".idx", ".bin", "-held.idx", "-held.bin"}) {
    const auto text = read_file(prefix + part);
    bytes += text.ok() ? *text + "|" : std::string("absent|");
  }
  return bytes;
}

std::vector<std::string> texts_of(const std::string& prefix) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const auto source = make_indexed_source(IndexedDataset::open(prefix).value()).value();
  std::vector<std::string> texts;
  for (std::uint64_t k = 0; k < source->num_documents(); ++k) {
    std::vector<std::int32_t> tokens(source->document_start(k + 1) - source->document_start(k));
    EXPECT_TRUE(source->read(source->document_start(k), tokens).ok());
    if (!tokens.empty()) {
      EXPECT_EQ(tokens.back(), kEndOfDocument);
      tokens.pop_back();
    }
    texts.push_back(tokenizer.decode(std::vector<TokenId>(tokens.begin(), tokens.end())).value());
  }
  return texts;
}

TEST(Pack, WritesDocumentsInOrderWithEndOfDocument) {
  TempDir dir;
  write_lines(dir / "x.jsonl.gz", {json_line("a", "one"), json_line("b", ""), "{\"title\":7}",
                                   json_line("c", "\xC3\xA4")});
  const auto options = pack_options({dir / "x.jsonl.gz"}, dir / "out/x");
  const PackReport report = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_EQ(texts_of(dir / "out/x"), (std::vector<std::string>{"one", "", "\xC3\xA4"}));
  EXPECT_EQ(report.documents_in, 4u);
  EXPECT_EQ(report.documents_bad, 1u);
  EXPECT_EQ(report.train.documents, 3u);
  EXPECT_EQ(report.train.tokens, 4u + 3u);
  EXPECT_EQ(report.train.text_bytes, 5u);
  const auto pair = IndexedDataset::open(dir / "out/x", IndexedDataset::Validate::kFull).value();
  EXPECT_EQ(pair.num_sequences(), 2u) << "a document without text has no sequence";
  EXPECT_EQ(pair.type(), TokenType::kUint16);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir / "out"))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"x.bin", "x.idx", "x.pack.json"}));
}

TEST(Pack, OutputDoesNotDependOnThreadsOrInterval) {
  TempDir dir;
  const auto inputs = write_pages(dir, 30);
  std::string expected;
  for (const int threads : {1, 3}) {
    for (const std::uint64_t interval : {3000u, 1u << 30}) {
      auto options = pack_options(
          inputs, dir / ("out" + std::to_string(threads) + "-" + std::to_string(interval)));
      options.heldout_prefix = options.prefix + "-held";
      options.threads = threads;
      options.interval_bytes = interval;
      ASSERT_TRUE(pack_documents(Tokenizer::bytes(), options).ok());
      const std::string bytes = all_outputs(options.prefix);
      if (expected.empty()) expected = bytes;
      EXPECT_EQ(bytes, expected) << threads << " threads, interval " << interval;
    }
  }
}

TEST(Pack, HeldOutPagesAreWholeAndShareNoLongLine) {
  TempDir dir;
  const auto inputs = write_pages(dir, 200);
  auto options = pack_options(inputs, dir / "out");
  options.heldout_prefix = dir / "out-held";
  options.heldout_share = 0.1;
  const PackReport report = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_GT(report.heldout.documents, 5u);
  EXPECT_LT(report.heldout.documents, 50u);
  EXPECT_EQ(report.train.documents + report.heldout.documents + report.documents_emptied, 200u);
  EXPECT_GT(report.lines_removed, 20u);
  EXPECT_TRUE(report.heldout_checked);
  EXPECT_EQ(report.shared_lines, 0u);
  // Independent of the code under test: lines by a plain set.
  std::set<std::string> whole, held_lines;
  for (int i = 0; i < 200; ++i) {
    std::string text = demo_document(3, static_cast<std::uint64_t>(i));
    if (i % 3 == 0)
      text += "This page was made from the sources of the manual on " + std::to_string(i % 2) +
              " May.\n";
    whole.insert(text);
  }
  const auto each_line = [](const std::string& text, auto visit) {
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      if (end - at > 40) visit(text.substr(at, end - at));
    }
  };
  for (const std::string& text : texts_of(dir / "out-held")) {
    EXPECT_TRUE(whole.contains(text));
    each_line(text, [&](const std::string& line) { held_lines.insert(line); });
  }
  EXPECT_GT(held_lines.size(), 20u);
  for (const std::string& text : texts_of(dir / "out")) {
    each_line(text,
              [&](const std::string& line) { EXPECT_FALSE(held_lines.contains(line)) << line; });
  }
}

TEST(Pack, OnePageIsHeldOutEvenOfFew) {
  TempDir dir;
  write_lines(dir / "x.jsonl", {json_line("a", "first page"), json_line("b", "second page"),
                                json_line("c", "third page")});
  auto options = pack_options({dir / "x.jsonl"}, dir / "x");
  options.heldout_prefix = dir / "x-held";
  options.heldout_share = 0.000001;
  const PackReport report = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_EQ(report.heldout.documents, 1u);
  EXPECT_EQ(report.train.documents, 2u);
}

// A training page that is a copy of a held-out one loses every line and goes.
TEST(Pack, CopiesOfHeldOutPagesAreEmptied) {
  TempDir dir;
  const std::string page = "A line that is certainly longer than forty characters.\n";
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i) lines.push_back(json_line("id" + std::to_string(i), page));
  write_lines(dir / "x.jsonl", lines);
  auto options = pack_options({dir / "x.jsonl"}, dir / "x");
  options.heldout_prefix = dir / "x-held";
  options.heldout_share = 0.2;
  const PackReport report = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_EQ(report.train.documents, 0u);
  EXPECT_EQ(report.documents_emptied + report.heldout.documents, 40u);
}

TEST(Pack, StopsAndGoesOn) {
  TempDir dir;
  const auto inputs = write_pages(dir, 120);
  auto straight = pack_options(inputs, dir / "straight");
  straight.heldout_prefix = straight.prefix + "-held";
  const PackReport whole = pack_documents(Tokenizer::bytes(), straight).value();
  auto options = pack_options(inputs, dir / "stopped");
  options.heldout_prefix = options.prefix + "-held";
  options.threads = 2;
  int chunks = 0, calls = 0;
  options.stop = [&] { return ++chunks % 4 == 0; };
  PackReport report;
  do {
    report = pack_documents(Tokenizer::bytes(), options).value();
    ++calls;
    EXPECT_EQ(fs::exists(options.prefix + ".idx"), !report.stopped);
  } while (report.stopped && calls < 200);
  EXPECT_GT(calls, 2);
  EXPECT_EQ(report.resumes, static_cast<std::uint64_t>(calls - 1));
  EXPECT_EQ(report.repeated_tokens, 0u) << "a stop on request saves first";
  EXPECT_EQ(all_outputs(options.prefix), all_outputs(straight.prefix));
  EXPECT_EQ(report.train.tokens, whole.train.tokens);
  EXPECT_EQ(report.documents_in, whole.documents_in);
  EXPECT_EQ(report.lines_removed, whole.lines_removed);
}

// kill -9 at random moments: the same call goes on and ends with the files of an undisturbed run.
TEST(Pack, SurvivesKillsAtRandomPoints) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream random(seed, "test.pack");
  TempDir dir;
  const auto inputs = write_pages(dir, 120);
  auto straight = pack_options(inputs, dir / "straight");
  straight.heldout_prefix = straight.prefix + "-held";
  const PackReport whole = pack_documents(Tokenizer::bytes(), straight).value();
  std::uint64_t draw = 0;
  std::uint64_t kills = 0;
  for (int round = 0; round < 2; ++round) {
    auto options = pack_options(inputs, dir / ("killed" + std::to_string(round)));
    options.heldout_prefix = options.prefix + "-held";
    options.threads = 2;
    for (int attempt = 0; attempt < 4; ++attempt) {
      // The child kills itself at its n-th look at `stop`, or, further on, while the parent watches
      // the clock.
      const std::uint64_t at = 1 + random.u64(draw++) % 6;
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        std::uint64_t looks = 0;
        options.stop = [&] {
          if (++looks == at) raise(SIGKILL);
          return false;
        };
        const auto report = pack_documents(Tokenizer::bytes(), options);
        _exit(report.ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      ++kills;
    }
    const PackReport report = pack_documents(Tokenizer::bytes(), options).value();
    EXPECT_EQ(all_outputs(options.prefix), all_outputs(straight.prefix));
    EXPECT_EQ(report.documents_in, whole.documents_in);
    EXPECT_EQ(report.train.tokens, whole.train.tokens);
    EXPECT_EQ(report.heldout.tokens, whole.heldout.tokens);
    EXPECT_LE(report.max_repeated_tokens, options.interval_bytes + 512)
        << "at most one interval, with its ends of document";
    EXPECT_FALSE(fs::exists(options.prefix + ".pack-state.json"));
  }
  EXPECT_GT(kills, 0u);
}

// Killed between two steps of finishing: each such state on disk is taken up.
TEST(Pack, FinishesFromEveryHalfFinishedState) {
  TempDir dir;
  const auto inputs = write_pages(dir, 20);
  auto options = pack_options(inputs, dir / "x");
  options.heldout_prefix = dir / "x-held";
  options.interval_bytes = 1 << 20;
  const PackReport whole = pack_documents(Tokenizer::bytes(), options).value();
  const std::string expected = all_outputs(dir / "x");
  // The state just before finishing, and the parts as they were, made again from the finished
  // files.
  PackState state;
  state.fingerprint = nlohmann::json::parse(read_file(dir / "x.pack.json").value())["fingerprint"];
  state.all_read = true;
  state.report = whole;
  const auto position = [](const IndexedDataset& pair) {
    return IndexedWriter::Position{pair.bin_bytes(), pair.num_sequences(),
                                   pair.num_documents() + 1};
  };
  const auto spill = [&](const std::string& prefix) {
    const auto pair = IndexedDataset::open(prefix).value();
    const std::string idx = read_file(prefix + ".idx").value();
    const std::uint64_t s = pair.num_sequences();
    std::ofstream(prefix + ".len.part", std::ios::binary) << idx.substr(34, 4 * s);
    std::ofstream(prefix + ".doc.part", std::ios::binary) << idx.substr(34 + 12 * s);
    return position(pair);
  };
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE(step);
    state.train = position(IndexedDataset::open(dir / "x").value());
    state.heldout = position(IndexedDataset::open(dir / "x-held").value());
    fs::remove(dir / "x.pack.json");
    if (step >= 1) spill(dir / "x-held");           // not yet removed
    if (step >= 2) fs::remove(dir / "x-held.idx");  // tokens renamed, index not
    if (step >= 3)
      fs::rename(dir / "x-held.bin", dir / "x-held.bin.part");  // second part not begun
    if (step >= 4) {
      spill(dir / "x");
      fs::remove(dir / "x.idx");
    }
    ASSERT_TRUE(write_file_atomic(dir / "x.pack-state.json", state.to_json().dump()).ok());
    const auto report = pack_documents(Tokenizer::bytes(), options);
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    EXPECT_EQ(all_outputs(dir / "x"), expected);
    EXPECT_EQ(report->train.tokens, whole.train.tokens);
  }
}

TEST(Pack, AnEqualCallDoesNothingAndAnotherIsRefused) {
  TempDir dir;
  const auto inputs = write_pages(dir, 20);
  auto options = pack_options(inputs, dir / "x");
  const PackReport first = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_FALSE(first.already_complete);
  const PackReport again = pack_documents(Tokenizer::bytes(), options).value();
  EXPECT_TRUE(again.already_complete);
  EXPECT_EQ(again.train.tokens, first.train.tokens);
  options.eod_id = -1;
  EXPECT_EQ(pack_documents(Tokenizer::bytes(), options).error().kind, ErrorKind::kInvalid);
  options.overwrite = true;
  EXPECT_LT(pack_documents(Tokenizer::bytes(), options)->train.tokens, first.train.tokens);
  // An unfinished packing of other options.
  auto unfinished = pack_options(inputs, dir / "y");
  unfinished.stop = [] { return true; };
  EXPECT_TRUE(pack_documents(Tokenizer::bytes(), unfinished)->stopped);
  unfinished.stop = nullptr;
  unfinished.eod_id = -1;
  EXPECT_EQ(pack_documents(Tokenizer::bytes(), unfinished).error().kind, ErrorKind::kInvalid);
  const auto lock = PackLock::take(dir / "y");
  ASSERT_TRUE(lock.ok());
  unfinished.overwrite = true;
  const auto locked = pack_documents(Tokenizer::bytes(), unfinished);
  EXPECT_NE(locked.error().message.find("another process"), std::string::npos);
}

TEST(Pack, DamagedInputsAreErrors) {
  TempDir dir;
  write_pages(dir, 200);
  const std::string bytes = read_file(dir / "a.jsonl.zst").value();
  std::ofstream(dir / "cut.jsonl.zst", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(pack_documents(Tokenizer::bytes(), pack_options({dir / "cut.jsonl.zst"}, dir / "x"))
                .error()
                .kind,
            ErrorKind::kCorrupt);
  EXPECT_FALSE(fs::exists(dir / "x.idx"));
  EXPECT_EQ(pack_documents(Tokenizer::bytes(), pack_options({dir / "none.jsonl"}, dir / "y"))
                .error()
                .kind,
            ErrorKind::kNotFound);
}

TEST(HeldOut, LongLinesAreCountedInCharacters) {
  const std::string forty(40, 'a');
  EXPECT_FALSE(long_line_hash(forty).has_value());
  EXPECT_FALSE(long_line_hash("  " + forty + " \t\r\n").has_value());
  EXPECT_TRUE(long_line_hash(forty + "b").has_value());
  EXPECT_EQ(long_line_hash(forty + "b"), long_line_hash("\t " + forty + "b\r\n"));
  std::string umlauts;
  for (int i = 0; i < 40; ++i) umlauts += "\xC3\xA4";
  EXPECT_FALSE(long_line_hash(umlauts).has_value());
  EXPECT_TRUE(long_line_hash(umlauts + "\xC3\xA4").has_value());
}

}  // namespace
}  // namespace sx
