#include "sextant/trace/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "sextant/trace/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

TEST(TensorBoard, MaskedChecksums) {
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(masked_crc32c(""), 0xa282ead8u);
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), 0x0fd7fffau);
}

TEST(TensorBoard, RecordsAreTheKnownBytes) {
  EXPECT_EQ(hex(tfrecord(tensorboard_version_event(1700000000.0))),
            "1800000000000000a37f4b22"
            "0900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
  EXPECT_EQ(hex(tfrecord(tensorboard_event(1700000001.0, 120, {{"loss", 2.5f}}))),
            "1a00000000000000129bd82d"
            "0900004040fc54d94110782a0d0a0b0a046c6f737315000020406164f226");
}

TEST(TensorBoard, FileOfAThousandScalarsReadsBack) {
  TempDir folder;
  TensorBoardWriter::Options options;
  options.wall_time = 1700000000;
  options.host = "host";
  options.pid = 42;
  std::vector<TensorBoardScalar> written;
  {
    auto writer = TensorBoardWriter::create(folder.path(), options);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer->path().filename(), "events.out.tfevents.1700000000.host.42.0");
    for (std::int64_t step = 1; step <= 1000; ++step) {
      const float value = step == 500 ? INFINITY : 1.0f / static_cast<float>(step);
      written.push_back({1700000000.0 + static_cast<double>(step), step, "train/loss", value});
      ASSERT_TRUE(writer->write(step, {{"train/loss", value}}, written.back().wall_time).ok());
    }
  }
  const auto path = folder / "events.out.tfevents.1700000000.host.42.0";
  const auto read = read_tensorboard(path);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(*read, written);
  // A second writer, as after a resume, takes the next number.
  auto next = TensorBoardWriter::create(folder.path(), options);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->path().filename(), "events.out.tfevents.1700000000.host.42.1");
}

TEST(TensorBoard, RowBecomesItsTags) {
  TempDir folder;
  MetricsRow row(10);
  row.set("loss", std::nan("")).set("mem_peak_bytes", 2147483648.0).set_count("tokens", 7);
  row.set("restarts", 3);  // has no tag
  row.set_object("comm", {{"tp", {{"all_gather", {{"seconds", 0.25}, {"bytes", 8}}}}}});
  row.set_object("dropped", {{"too_short", 4}});
  auto writer = TensorBoardWriter::create(folder.path(), {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(row, 5.0).ok());
  ASSERT_TRUE(writer->flush().ok());
  const auto scalars = read_tensorboard(writer->path());
  ASSERT_TRUE(scalars.ok());
  std::map<std::string, float> values;
  for (const auto& scalar : *scalars) values[scalar.tag] = scalar.value;
  ASSERT_EQ(values.size(), 5u);
  EXPECT_TRUE(std::isnan(values.at("train/loss")));
  EXPECT_EQ(values.at("mem/peak_gib"), 2.0f);
  EXPECT_EQ(values.at("train/tokens"), 7.0f);
  EXPECT_EQ(values.at("comm/tp/all_gather"), 0.25f);
  EXPECT_EQ(values.at("crawl/dropped/too_short"), 4.0f);
}

TEST(TensorBoard, EveryTruncationParsesToAPrefixAndEveryFlipIsSeen) {
  std::string bytes = tfrecord(tensorboard_version_event(1));
  bytes += tfrecord(tensorboard_event(2, 1, {{"a", 1.0f}}));
  bytes += tfrecord(tensorboard_event(3, 2, {{"a", 2.0f}, {"b", 3.0f}}));
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto scalars = parse_tensorboard(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(scalars.ok()) << size;
    EXPECT_LE(scalars->size(), 3u);
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_FALSE(parse_tensorboard(flipped).ok()) << at;
  }
}

TEST(Sha256, KnownAnswers) {
  const auto text = [](std::string_view bytes) {
    const auto digest = sha256(bytes);
    return hex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
  };
  // FIPS 180-4 examples.
  EXPECT_EQ(text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(text(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(text(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(csp_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

}  // namespace
}  // namespace sx
