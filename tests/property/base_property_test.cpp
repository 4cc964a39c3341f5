// What must hold in sx_base for every input.
#include <fmt/format.h>

#include "sextant/base/fs.h"
#include "sextant/base/hash.h"
#include "sextant/base/host_list.h"
#include "sextant/base/log.h"
#include "sextant/base/units.h"
#include "tests/property/generator.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

TEST(BasePropertyTest, FileWriterWritesExactlyWhatItIsGiven) {
  const TempDir dir;
  SX_PROPERTY(30, 1) {
    std::string expected;
    auto writer = FileWriter::create(dir / "f");
    ASSERT_TRUE(writer.ok());
    for (const std::string& piece : generator.vector(6, [&] { return generator.bytes(400'000); })) {
      ASSERT_TRUE(writer->write(piece).ok());
      expected += piece;
    }
    ASSERT_TRUE(writer->commit().ok());
    // Kept up to a random place and written again from there, as a resumed run does.
    const std::size_t keep =
        static_cast<std::size_t>(generator.integer(0, static_cast<std::int64_t>(expected.size())));
    auto again = FileWriter::resume(dir / "f", keep);
    ASSERT_TRUE(again.ok());
    ASSERT_TRUE(again->write(std::string_view(expected).substr(keep)).ok());
    ASSERT_TRUE(again->commit().ok());
    EXPECT_TRUE(*read_file(dir / "f") == expected);
  }
}

TEST(BasePropertyTest, HashOfPartsIsThatOfTheWhole) {
  SX_PROPERTY(200, 1) {
    const std::string bytes = generator.bytes(3000);
    Xxh3Stream stream;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = std::min(bytes.size() - at, 1 + generator.size(500));
      stream.update(std::string_view(bytes).substr(at, length));
      at += length;
    }
    EXPECT_EQ(stream.digest(), xxh3_64(bytes));
  }
}

TEST(BasePropertyTest, SlicesOfAStreamDoNotDependOnOrder) {
  SX_PROPERTY(100, 1) {
    const RandomStream stream(generator.u64(), generator.text(20), generator.u64());
    const std::uint64_t i = generator.u64() >> 1;
    const std::uint64_t x = stream.u64(i);
    static_cast<void>(stream.u64(i + 1));
    EXPECT_EQ(stream.u64(i), x);
    EXPECT_GT(stream.uniform(i), 0.0);
    EXPECT_LT(stream.uniform(i), 1.0);
  }
}

TEST(BasePropertyTest, CountsAndBytesReadBack) {
  SX_PROPERTY(300, 1) {
    const std::int64_t n = generator.integer(0, INT64_MAX);
    EXPECT_EQ(*parse_count(std::to_string(n)), n);
    EXPECT_EQ(parse_bytes(std::to_string(n) + "B")->value, n);
    const std::int64_t mib = generator.integer(0, 1 << 20);
    EXPECT_EQ(parse_bytes(std::to_string(mib) + " MiB")->value, mib << 20);
  }
}

TEST(BasePropertyTest, AnyTextIsANumberOrAnErrorAndNeverMore) {
  const std::vector<std::string> parts{"1", "0", ".",   "_", " ", "k",         "MiB",
                                       "B", "s", "min", "-", "e", "9999999999"};
  SX_PROPERTY(500, 1) {
    std::string text;
    for (const std::string& part : generator.vector(6, [&] { return generator.pick(parts); }))
      text += part;
    if (const auto bytes = parse_bytes(text); bytes.ok()) {
      EXPECT_GE(bytes->value, 0) << text;
    }
    if (const auto count = parse_count(text); count.ok()) {
      EXPECT_GE(*count, 0) << text;
    }
    if (const auto time = parse_duration(text); time.ok()) {
      EXPECT_GE(time->value, 0) << text;
    }
  }
}

TEST(BasePropertyTest, LogLinesAreJsonForAnyBytes) {
  SX_PROPERTY(300, 1) {
    const std::string text = generator.bytes(60);
    const std::string line =
        log::json_line(LogLevel::kInfo, "a.b", {{"text", text}, {"x", generator.real()}}, 0,
                       nullptr, generator.integer(0, 4'000'000'000'000'000), 0);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded()) << line;
  }
}

TEST(BasePropertyTest, HostListsOfWrittenRangesReadBack) {
  SX_PROPERTY(200, 1) {
    std::vector<std::string> expected;
    std::string list;
    for (std::size_t left = 1 + generator.size(4); left > 0; --left) {
      const std::int64_t width = generator.integer(1, 4);
      const std::int64_t from = generator.integer(0, 9);
      const std::int64_t to = from + generator.integer(0, 20);
      list += (list.empty() ? "" : ",") + fmt::format("n[{:0{}}-{:0{}}]", from, width, to, width);
      for (std::int64_t i = from; i <= to; ++i)
        expected.push_back(fmt::format("n{:0{}}", i, width));
    }
    EXPECT_EQ(*expand_host_list(list), expected) << list;
  }
}

}  // namespace
}  // namespace sx
