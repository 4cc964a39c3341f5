#include "sextant/dcp/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/test_data.h"

namespace sx {
namespace {

using safetensors::Dtype;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path dcp_reference(const std::string& name) {
  return source_file("tests/golden/reference/dcp") / name;
}

template <class T>
std::vector<T> values_of(const DcpFolder& folder, const std::string& name) {
  const DcpTensor& tensor = folder.index().tensors.at(name);
  std::vector<T> values(static_cast<std::size_t>(tensor.num_elements()));
  const auto read = folder.read(tensor, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_TRUE(read.ok()) << read.error().to_string();
  return values;
}

// make_dcp_reference.py: element i is i / 2.
template <class T>
void expect_halves(const DcpFolder& folder, const std::string& name, std::size_t count) {
  const std::vector<T> values = values_of<T>(folder, name);
  ASSERT_EQ(values.size(), count) << name;
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<T>(i) / 2) << name << i;
}

TEST(DcpFolder, ReadsWhatOneRankSaved) {
  const auto opened = DcpFolder::open(dcp_reference("one"));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  expect_halves<float>(*opened, "model.w", 12);
  expect_halves<float>(*opened, "model.s", 1);
  expect_halves<float>(*opened, "model.e", 0);
  EXPECT_EQ(opened->index().tensors.at("model.b").dtype, Dtype::kBF16);
  EXPECT_EQ(values_of<std::uint16_t>(*opened, "model.b")[2], 0x3f80);  // 1.0
  EXPECT_THAT(values_of<std::int64_t>(*opened, "ids"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values_of<float>(*opened, "model.tail"), ElementsAre(4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5));
  EXPECT_THAT(opened->index().objects, testing::UnorderedElementsAre("step", "note"));
}

TEST(DcpFolder, PutsPiecesOfTwoRanksTogether) {
  const auto opened = DcpFolder::open(dcp_reference("two"));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(opened->index().tensors.at("columns").chunks.size(), 2u);
  expect_halves<float>(*opened, "rows", 15);
  expect_halves<float>(*opened, "columns", 24);
  expect_halves<float>(*opened, "copies", 4);
  expect_halves<double>(*opened, "deep", 24);
}

std::string metadata() { return read_file(dcp_reference("two") / ".metadata").value(); }

// Any change is an error or another legal checkpoint, never a crash or a wrong place.
TEST(DcpFolder, DamagedMetadataIsRefused) {
  const std::string whole = metadata();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    ASSERT_FALSE(parse_dcp_metadata(whole.substr(0, n)).ok()) << n;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int bit : {1, 64}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ bit);
      (void)parse_dcp_metadata(changed).ok();
    }
  }
}

TEST(DcpFolder, PiecesThatDoNotTileAreRefused) {
  // The piece of "rows" with 3 of 5 rows begins with the pickled numbers K 3 K 3 (3 x 3).
  std::string changed = metadata();
  const std::size_t rows = changed.find("rows");
  ASSERT_NE(rows, std::string::npos);
  const std::size_t piece = changed.find("K\x03K\x03", rows);
  ASSERT_NE(piece, std::string::npos);
  changed[piece + 1] = 4;
  EXPECT_THAT(parse_dcp_metadata(changed).error().message, HasSubstr("\"rows\""));
}

TEST(DcpFolder, AbsentAndShortFilesAreErrors) {
  const TempDir dir;
  EXPECT_EQ(DcpFolder::open(dir.path()).error().kind, ErrorKind::kNotFound);
  fs::copy(dcp_reference("two"), dir / "c");
  fs::resize_file(dir / "c" / "__1_0.distcp", 100);
  EXPECT_THAT(DcpFolder::open(dir / "c").error().where, HasSubstr("__1_0.distcp"));
  fs::remove(dir / "c" / "__1_0.distcp");
  EXPECT_EQ(DcpFolder::open(dir / "c").error().kind, ErrorKind::kNotFound);
}

TEST(DcpFolder, PiecesThatContradictTheirDescriptionAreErrors) {
  const TempDir dir;
  fs::copy(dcp_reference("one"), dir / "c");
  std::string bytes = read_file(dir / "c" / "__0_0.distcp").value();
  for (std::size_t at = 0; (at = bytes.find("FloatStorage", at)) != std::string::npos; at += 5) {
    bytes.replace(at, 12, "EvilStorages");
  }
  ASSERT_TRUE(write_file_atomic(dir / "c" / "__0_0.distcp", bytes).ok());
  const auto opened = DcpFolder::open(dir / "c").value();
  std::vector<std::byte> room(48);
  const auto read = opened.read(opened.index().tensors.at("model.w"), room.data());
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(read.error().message, HasSubstr("torch.EvilStorages"));
  EXPECT_THAT(read.error().where, HasSubstr("byte"));
}

}  // namespace
}  // namespace sx
