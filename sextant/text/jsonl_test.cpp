#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sextant/text/jsonl_reader.h"
#include "sextant/text/jsonl_writer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

class JsonlCodecs : public testing::TestWithParam<const char*> {};

TEST_P(JsonlCodecs, RoundTripOverManyFrames) {
  TempDir dir;
  const auto path = dir / (std::string("x.jsonl") + GetParam());
  JsonlWriter::Options options;
  options.frame_bytes = 1000;
  auto writer = JsonlWriter::create(path, options);
  ASSERT_TRUE(writer.ok());
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    std::string text = "line " + std::to_string(i) + " \"quoted\" \\ \t\n \x01 \xE2\x82\xAC";
    text.append(static_cast<std::size_t>(i), 'x');
    std::string line = "{\"id\":\"d" + std::to_string(i) + "\",\"text\":";
    append_json_string(line, text);
    line += "}";
    EXPECT_EQ(nlohmann::json::parse(line)["text"], text);
    ASSERT_TRUE(writer->write_line(line).ok());
    texts.push_back(text);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->commit().ok());
  auto reader = JsonlReader::open(path);
  ASSERT_TRUE(reader.ok());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto document = reader->next();
    ASSERT_TRUE(document.ok()) << document.error().to_string();
    ASSERT_TRUE(document->has_value());
    EXPECT_EQ((*document)->text, texts[i]);
    EXPECT_EQ((*document)->id, "d" + std::to_string(i));
    EXPECT_EQ((*document)->line_number, i + 1);
  }
  auto end = reader->next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}
INSTANTIATE_TEST_SUITE_P(All, JsonlCodecs, testing::Values("", ".gz", ".zst"));

TEST(JsonlWriter, ZstdFileIsReadByTheZstdProgramAndEndsWithASeekTable) {
  TempDir dir;
  const auto path = dir / "x.jsonl.zst";
  JsonlWriter::Options options;
  options.frame_bytes = 10;
  auto writer = JsonlWriter::create(path, options);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write_line("{\"text\":\"one\"}").ok());
  ASSERT_TRUE(writer->write_line("{\"text\":\"two\"}").ok());
  ASSERT_TRUE(writer->commit().ok());
  const std::string bytes = read_bytes(path);
  ASSERT_GT(bytes.size(), 33u);
  // Table of 2 frames: 8 header, 2 x 8 entries, 9 footer.
  const std::string table = bytes.substr(bytes.size() - 33);
  EXPECT_EQ(table.substr(0, 8), std::string("\x5E\x2A\x4D\x18\x19\0\0\0", 8));
  EXPECT_EQ(table.substr(24), std::string("\x02\0\0\0\0\xB1\xEA\x92\x8F", 9));
  EXPECT_EQ(static_cast<unsigned char>(table[12]), 15);  // uncompressed bytes of the first frame
  const std::string command =
      "zstd -q -d -c " + path.string() + " > " + (dir / "plain").string() + " 2>&1";
  if (std::system("command -v zstd > /dev/null") == 0) {
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(read_bytes(dir / "plain"), "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
  }
}

TEST(JsonlWriter, WithoutCommitNothingStays) {
  TempDir dir;
  {
    auto writer = JsonlWriter::create(dir / "x.jsonl");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write_line("{}").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(JsonlReader, FaultyLinesAreErrorsAndTheNextLineFollows) {
  TempDir dir;
  write_bytes(dir / "x.jsonl",
              "\xEF\xBB\xBF{\"text\":\"a\"}\r\n"
              "\n"
              "{\"text\":1}\n"
              "{\"no\":\"text\"}\n"
              "[1]\n"
              "{\"text\":\"\xFF\"}\n"
              "{\"text\":\"x\"} y\n"
              "{\"text\":\"\\ud800-\\ud83d\\ude00\"}\n"
              "{\"id\":7,\"meta\":{\"text\":\"inner\"},\"text\":\"last\"}");
  auto reader = JsonlReader::open(dir / "x.jsonl");
  ASSERT_TRUE(reader.ok());
  auto first = reader->next();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->text, "a");
  for (const int line : {3, 4, 5, 6, 7}) {
    auto bad = reader->next();
    ASSERT_FALSE(bad.ok()) << line;
    EXPECT_EQ(bad.error().where, (dir / "x.jsonl").string() + ":" + std::to_string(line));
  }
  auto surrogate = reader->next();
  ASSERT_TRUE(surrogate.ok());
  EXPECT_EQ((*surrogate)->text, "\xEF\xBF\xBD-\xF0\x9F\x98\x80");
  auto last = reader->next();
  ASSERT_TRUE(last.ok());
  EXPECT_EQ((*last)->text, "last");
  EXPECT_EQ((*last)->id, "7");
  EXPECT_FALSE(reader->next()->has_value());
}

TEST(JsonlReader, CutAndDamagedCompressedFilesAreErrors) {
  TempDir dir;
  for (const char* name : {"x.jsonl.gz", "x.jsonl.zst"}) {
    auto writer = JsonlWriter::create(dir / name);
    ASSERT_TRUE(writer.ok());
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(writer->write_line("{\"text\":\"" + std::to_string(i * 7919) + "\"}").ok());
    ASSERT_TRUE(writer->commit().ok());
    const std::string bytes = read_bytes(dir / name);
    write_bytes(dir / "cut", bytes.substr(0, bytes.size() / 2));
    auto reader = JsonlReader::open(dir / "cut");
    ASSERT_TRUE(reader.ok());
    bool failed = false;
    for (;;) {
      auto document = reader->next();
      if (!document.ok()) {
        EXPECT_EQ(document.error().kind, ErrorKind::kCorrupt);
        failed = true;
        break;
      }
      if (!document->has_value()) break;
    }
    EXPECT_TRUE(failed) << name;
    EXPECT_FALSE(reader->next()->has_value());
  }
  EXPECT_EQ(JsonlReader::open(dir / "absent").error().kind, ErrorKind::kNotFound);
}

TEST(LineReader, LineLimit) {
  TempDir dir;
  write_bytes(dir / "x", std::string(2000000, 'a'));
  auto reader = LineReader::open(dir / "x", 1000);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->next().error().kind, ErrorKind::kLimit);
  EXPECT_FALSE(reader->next()->has_value());
}

}  // namespace
}  // namespace sx
