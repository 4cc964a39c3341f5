#include "sextant/data/indexed_dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "sextant/base/rng.h"
#include "sextant/data/indexed_writer.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::string file_text(const std::string& path) { return read_file(path).value(); }

void put_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T>
void put(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

/// The index of two documents, {5 6 7} and {} {8}, uint16, by the table of
/// docs/formats/indexed_dataset.md.
std::string small_index() {
  std::string bytes("MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 34);
  const auto add = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const std::int32_t length : {3, 0, 1}) add(length);
  for (const std::int64_t offset : {0, 6, 6}) add(offset);
  for (const std::int64_t mark : {0, 1, 3}) add(mark);
  return bytes;
}
constexpr std::string_view kSmallBin("\5\0\6\0\7\0\10\0", 8);

std::vector<std::int32_t> tokens_of(const IndexedDataset& dataset, std::uint64_t i) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.sequence_length(i)));
  EXPECT_TRUE(dataset.read_sequence(i, 0, tokens).ok());
  return tokens;
}

TEST(IndexedWriter, WritesTheBytesOfTheFormat) {
  TempDir dir;
  const std::string prefix = dir / "x";
  auto writer = IndexedWriter::create(prefix, TokenType::kUint16).value();
  const std::vector<std::int32_t> first{5, 6, 7}, second{8};
  ASSERT_TRUE(writer.add_document(first).ok());
  ASSERT_TRUE(writer.add_document(second, std::vector<std::int32_t>{0, 1}).ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(file_text(prefix + ".idx"), small_index());
  EXPECT_EQ(file_text(prefix + ".bin"), kSmallBin);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 2u);
}

// Hashes of what megatron-core 0.19.2 writes for these formulas.
TEST(IndexedWriter, EqualsMegatronOnFilesByFormula) {
  const struct {
    int documents, idx_bytes, bin_bytes;
    const char *idx, *bin;
  } rows[] = {{200, 4042, 19552, "d6eaf04fd541b823", "30305145b10bb8d9"},
              {250, 5042, 24512, "1b9bc2a241a2d524", "4bc1d02c4bb61a7d"},
              {300, 6042, 29462, "d668d413822d8d9f", "2ccc27761d6d6c74"}};
  TempDir dir;
  for (int k = 0; k < 3; ++k) {
    const std::string prefix = dir / std::to_string(k);
    auto writer = IndexedWriter::create(prefix, token_type_for_vocab(1000)).value();
    for (int i = 0; i < rows[k].documents; ++i) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(1 + (37 * i + 11 * k) % 97));
      for (int j = 0; j < static_cast<int>(tokens.size()); ++j) {
        tokens[static_cast<std::size_t>(j)] = 1 + (131 * i + 17 * j + 7 * k) % 999;
      }
      ASSERT_TRUE(writer.add_document(tokens).ok());
    }
    ASSERT_TRUE(writer.finish().ok());
    const std::string idx = file_text(prefix + ".idx"), bin = file_text(prefix + ".bin");
    EXPECT_EQ(idx.size(), static_cast<std::size_t>(rows[k].idx_bytes));
    EXPECT_EQ(bin.size(), static_cast<std::size_t>(rows[k].bin_bytes));
    EXPECT_EQ(sha256_hex(idx).substr(0, 16), rows[k].idx);
    EXPECT_EQ(sha256_hex(bin).substr(0, 16), rows[k].bin);
    EXPECT_TRUE(IndexedDataset::open(prefix, IndexedDataset::Validate::kFull).ok());
  }
}

TEST(IndexedWriter, ChoosesTheTypeAsMegatronWrites) {
  EXPECT_EQ(token_type_for_vocab(65499), TokenType::kUint16);
  EXPECT_EQ(token_type_for_vocab(65500), TokenType::kInt32);
}

TEST(IndexedWriter, RefusesIdsThatDoNotFit) {
  TempDir dir;
  auto writer = IndexedWriter::create(dir / "x", TokenType::kUint16).value();
  EXPECT_EQ(writer.add_document(std::vector<std::int32_t>{65536}).error().kind,
            ErrorKind::kInvalid);
  EXPECT_EQ(writer.add_document(std::vector<std::int32_t>{-1}).error().kind, ErrorKind::kInvalid);
}

TEST(IndexedWriter, GoesBackToASavedPosition) {
  TempDir dir;
  const std::string whole = dir / "whole", cut = dir / "cut";
  const auto document = [](int i) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(i % 5), i);
  };
  auto straight = IndexedWriter::create(whole, TokenType::kInt32).value();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(straight.add_document(document(i)).ok());
  ASSERT_TRUE(straight.finish().ok());
  IndexedWriter::Position saved;
  {
    auto writer = IndexedWriter::create(cut, TokenType::kInt32).value();
    for (int i = 0; i < 15; ++i) {
      if (i == 9) {
        ASSERT_TRUE(writer.sync().ok());
        saved = writer.position();
      }
      ASSERT_TRUE(writer.add_document(document(i)).ok());
    }
    ASSERT_TRUE(writer.sync().ok());
  }
  EXPECT_FALSE(fs::exists(cut + ".idx"));
  EXPECT_EQ(IndexedWriter::parts_on_disk(cut, TokenType::kInt32)->num_marks, 16u);
  auto writer = IndexedWriter::resume(cut, TokenType::kInt32, saved).value();
  for (int i = 9; i < 20; ++i) ASSERT_TRUE(writer.add_document(document(i)).ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(file_text(whole + ".idx"), file_text(cut + ".idx"));
  EXPECT_EQ(file_text(whole + ".bin"), file_text(cut + ".bin"));
}

// Issue: a merge has to shift the document indices and leave out the second leading 0 (Megatron-LM
// #81).
TEST(IndexedWriter, MergesWithShiftedDocumentMarks) {
  TempDir dir;
  put_file(dir / "a.idx", small_index());
  put_file(dir / "a.bin", kSmallBin);
  auto writer = IndexedWriter::create(dir / "m", TokenType::kUint16).value();
  const auto part = IndexedDataset::open(dir / "a").value();
  ASSERT_TRUE(writer.add_index(part).ok());
  ASSERT_TRUE(writer.add_index(part).ok());
  ASSERT_TRUE(writer.finish().ok());
  const auto merged = IndexedDataset::open(dir / "m", IndexedDataset::Validate::kFull).value();
  std::vector<std::int64_t> marks;
  for (std::uint64_t k = 0; k <= merged.num_documents(); ++k)
    marks.push_back(merged.document_mark(k));
  EXPECT_EQ(marks, (std::vector<std::int64_t>{0, 1, 3, 4, 6}));
  EXPECT_EQ(tokens_of(merged, 3), (std::vector<std::int32_t>{5, 6, 7}));
  auto other = IndexedWriter::create(dir / "n", TokenType::kInt32).value();
  EXPECT_EQ(other.add_index(part).error().kind, ErrorKind::kInvalid);
}

TEST(IndexedDataset, ReadsByHandMadeBytes) {
  TempDir dir;
  put_file(dir / "x.idx", small_index());
  put_file(dir / "x.bin", kSmallBin);
  for (const char* name : {"x", "x.idx", "x.bin"}) {
    const auto dataset = IndexedDataset::open(dir / name, IndexedDataset::Validate::kFull).value();
    EXPECT_EQ(dataset.num_sequences(), 3u);
    EXPECT_EQ(dataset.num_documents(), 2u);
    EXPECT_EQ(dataset.type(), TokenType::kUint16);
    EXPECT_FALSE(dataset.has_modes());
    EXPECT_EQ(tokens_of(dataset, 0), (std::vector<std::int32_t>{5, 6, 7}));
    EXPECT_EQ(tokens_of(dataset, 1), (std::vector<std::int32_t>{}));
    EXPECT_EQ(tokens_of(dataset, 2), (std::vector<std::int32_t>{8}));
    EXPECT_TRUE(dataset.check_tokens(9).ok());
    const Error error = dataset.check_tokens(8).error();
    EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
    EXPECT_NE(error.message.find("sequence 2: token 0 is 8"), std::string::npos) << error.message;
  }
}

TEST(IndexedDataset, ReadsEveryTokenType) {
  TempDir dir;
  for (const auto type : {TokenType::kUint8, TokenType::kInt8, TokenType::kInt16, TokenType::kInt32,
                          TokenType::kInt64, TokenType::kUint16}) {
    const std::string prefix = dir / to_string(type);
    const std::vector<std::int32_t> tokens{0, 1, 127};
    auto writer = IndexedWriter::create(prefix, type).value();
    ASSERT_TRUE(writer.add_document(tokens).ok());
    ASSERT_TRUE(writer.finish().ok());
    const auto dataset = IndexedDataset::open(prefix).value();
    EXPECT_EQ(dataset.bin_bytes(), 3 * token_bytes(type));
    EXPECT_EQ(tokens_of(dataset, 0), tokens);
  }
  std::string bin = file_text(dir / "int64.bin");
  put(bin, 8, std::int64_t{1} << 40);
  put_file(dir / "int64.bin", bin);
  std::vector<std::int32_t> out(3);
  EXPECT_EQ(IndexedDataset::open(dir / "int64")->read_sequence(0, 0, out).error().kind,
            ErrorKind::kCorrupt);
}

struct Damage {
  const char* name;
  std::size_t offset;
  std::string bytes;
  std::string word;  ///< stands in the message
};

std::string number(std::int64_t value, std::size_t size = 8) {
  return std::string(reinterpret_cast<const char*>(&value), size);
}

// The layout of small_index(): lengths at 34, offsets at 46, document indices at 70, end at 94.
std::vector<Damage> damages() {
  return {
      {"magic", 0, "N", "MMIDIDX"},
      {"magic end", 8, "\1", "MMIDIDX"},
      {"version 0", 9, number(0), "version 0"},
      {"version 2", 9, number(2), "version 2"},
      {"type 0", 17, std::string(1, '\0'), "code 0"},
      {"type 6", 17, "\6", "float64"},
      {"type 7", 17, "\7", "float32"},
      {"type 9", 17, "\11", "code 9"},
      {"type 255", 17, "\377", "code 255"},
      {"sequences 0", 18, number(0), "behind the document indices"},
      {"sequences 2", 18, number(2), "behind the document indices"},
      {"sequences 4", 18, number(4), "document indices do not fit"},
      {"sequences 10^6", 18, number(1000000), "sequences do not fit"},
      {"sequences 2^60", 18, number(std::int64_t{1} << 60), "sequences do not fit"},
      {"sequences -1", 18, number(-1), "sequences do not fit"},
      {"documents 0", 26, number(0), "0 document indices"},
      {"documents 1", 26, number(1), "behind the document indices"},
      {"documents 2", 26, number(2), "behind the document indices"},
      {"documents 4", 26, number(4), "document indices do not fit"},
      {"documents 2^61", 26, number(std::int64_t{1} << 61), "document indices do not fit"},
      {"documents -1", 26, number(-1), "document indices do not fit"},
      {"length negative", 34, number(-1, 4), "sequence 0 has length -1"},
      {"length too long", 34, number(2000, 4), "sequence 0"},
      {"last length negative", 42, number(-5, 4), "sequence 2 has length -5"},
      {"last length too long", 42, number(2, 4), "sequence 2"},
      {"last length 2^31-1", 42, number(0x7fffffff, 4), "sequence 2"},
      {"offset negative", 46, number(-2), "sequence 0"},
      {"offset outside", 54, number(1000), "sequence 1"},
      {"last offset outside", 62, number(8), "sequence 2"},
      {"last offset 2^63-1", 62, number(0x7fffffffffffffff), "sequence 2"},
      {"last offset negative", 62, number(-1), "sequence 2"},
      {"first mark", 70, number(1), "first document index 1"},
      {"middle mark descends", 78, number(4), "document 1 ends"},
      {"middle mark negative", 78, number(-1), "document 0 ends"},
      {"last mark", 86, number(4), "last document index 4"},
      {"last mark negative", 86, number(-1), "last document index -1"},
  };
}

TEST(IndexedDatasetDamage, EveryKindIsATypedErrorThatNamesThePlace) {
  TempDir dir;
  put_file(dir / "x.bin", kSmallBin);
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    std::string bytes = small_index();
    bytes.replace(damage.offset, damage.bytes.size(), damage.bytes);
    put_file(dir / "x.idx", bytes);
    const auto dataset = IndexedDataset::open(dir / "x", IndexedDataset::Validate::kFull);
    ASSERT_FALSE(dataset.ok());
    const Error& error = dataset.error();
    EXPECT_TRUE(error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kUnsupported);
    EXPECT_NE(error.message.find(damage.word), std::string::npos) << error.message;
    EXPECT_NE(error.where.find("x.idx, byte "), std::string::npos) << error.where;
  }
}

TEST(IndexedDatasetDamage, CutAtEveryByteIsAnError) {
  TempDir dir;
  put_file(dir / "x.bin", kSmallBin);
  const std::string whole = small_index();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_file(dir / "x.idx", whole.substr(0, size));
    EXPECT_EQ(IndexedDataset::open(dir / "x").error().kind, ErrorKind::kCorrupt) << size;
  }
  put_file(dir / "x.idx", whole + "a");
  EXPECT_EQ(IndexedDataset::open(dir / "x").error().kind, ErrorKind::kCorrupt);
  put_file(dir / "x.idx", whole);
  for (std::size_t size = 0; size < kSmallBin.size(); ++size) {
    put_file(dir / "x.bin", kSmallBin.substr(0, size));
    EXPECT_EQ(IndexedDataset::open(dir / "x").error().kind, ErrorKind::kCorrupt) << size;
  }
}

TEST(IndexedDatasetDamage, MissingFilesAreNotFound) {
  TempDir dir;
  EXPECT_EQ(IndexedDataset::open(dir / "x").error().kind, ErrorKind::kNotFound);
  put_file(dir / "x.idx", small_index());
  EXPECT_EQ(IndexedDataset::open(dir / "x").error().kind, ErrorKind::kNotFound);
}

// Random bytes over a valid index: an error, or a dataset whose every sequence can be asked for.
TEST(IndexedDatasetDamage, RandomDamageNeverLeadsOutOfTheFile) {
  TempDir dir;
  put_file(dir / "x.bin", kSmallBin);
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream random(seed, "test.idx");
  std::uint64_t draw = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bytes = small_index();
    for (std::uint64_t n = 1 + random.u64(draw++) % 4; n > 0; --n) {
      const std::uint64_t place = 17 + random.u64(draw++) % (bytes.size() - 17);
      bytes[place] = static_cast<char>(random.u64(draw++));
    }
    put_file(dir / "x.idx", bytes);
    auto dataset = IndexedDataset::open(dir / "x");
    if (!dataset.ok()) continue;
    for (std::uint64_t i = 0; i < dataset->num_sequences(); ++i) {
      if (!dataset->check_sequence(i).ok()) continue;
      std::vector<std::int32_t> out(static_cast<std::size_t>(dataset->sequence_length(i)));
      (void)dataset->read_sequence(i, 0, out).ok();
    }
    (void)dataset->check_structure().ok();
  }
}

TEST(IndexedSource, IsTheSequencesOneAfterTheOther) {
  TempDir dir;
  put_file(dir / "x.idx", small_index());
  put_file(dir / "x.bin", kSmallBin);
  const auto source = make_indexed_source(IndexedDataset::open(dir / "x").value()).value();
  ASSERT_EQ(source->num_tokens(), 4u);
  EXPECT_EQ(source->num_documents(), 2u);
  EXPECT_EQ(source->document_start(1), 3u);
  EXPECT_EQ(source->document_start(2), 4u);
  std::vector<std::int32_t> out(3);
  ASSERT_TRUE(source->read(1, out).ok());
  EXPECT_EQ(out, (std::vector<std::int32_t>{6, 7, 8}));
}

TEST(IndexedSource, LeavesOutGapsBetweenSequences) {
  TempDir dir;
  std::string bytes = small_index();
  put(bytes, 46 + 16, std::int64_t{10});  // sequence 2 begins two tokens later
  put_file(dir / "x.idx", bytes);
  put_file(dir / "x.bin", std::string("\5\0\6\0\7\0\77\0\77\0\10\0", 12));
  auto dataset = IndexedDataset::open(dir / "x").value();
  EXPECT_EQ(dataset.check_structure()->num_gaps, 1u);
  EXPECT_EQ(dataset.check_structure()->first_gap, 2u);
  const auto source = make_indexed_source(std::move(dataset)).value();
  ASSERT_EQ(source->num_tokens(), 4u);
  std::vector<std::int32_t> out(4);
  ASSERT_TRUE(source->read(0, out).ok());
  EXPECT_EQ(out, (std::vector<std::int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(source->document_start(1), 3u);
}

}  // namespace
}  // namespace sx
