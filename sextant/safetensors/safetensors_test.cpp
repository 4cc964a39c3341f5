#include "sextant/safetensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/test_data.h"

namespace sx::safetensors {
namespace {

using testing::HasSubstr;

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes + header + data;
}

Result<Header> parse(const std::string& bytes) { return parse_header(bytes, bytes.size()); }

const std::string kKnownHeader =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

// Bytes as the reference implementation of the format writes them for w = [1, -2] (104 in all).
TEST(Safetensors, WritesTheKnownHeader) {
  const auto layout = plan_layout({{"w", Dtype::kF32, {2}}}, {{"format", "pt"}});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->head, with_length(kKnownHeader + "   "));
  EXPECT_EQ(layout->head.substr(0, 8), std::string("\x58\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(layout->head.size() + 8, 104u);
}

TEST(Safetensors, ReadsWhatItWrites) {
  const auto layout = plan_layout({{"small", Dtype::kU8, {3}},
                                   {"b", Dtype::kF32, {2, 2}},
                                   {"a", Dtype::kF32, {}},
                                   {"big", Dtype::kF64, {1}},
                                   {"empty", Dtype::kBF16, {4, 0, 2}},
                                   {"quote \" and \xc3\xa4", Dtype::kBool, {1}}},
                                  {{"format", "pt"}, {"note", "x"}});
  ASSERT_TRUE(layout.ok());
  const std::string data(8 + 4 + 16 + 1 + 3, 'x');
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", layout->head + data).ok());
  const auto file = File::open(dir / "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->header().metadata.at("note"), "x");
  EXPECT_EQ(file->header().data_begin % 8, 0u);
  std::vector<std::string> order;
  for (const Entry& entry : file->header().entries) order.push_back(entry.name);
  EXPECT_THAT(order,
              testing::ElementsAre("big", "a", "b", "empty", "quote \" and \xc3\xa4", "small"));
  const Entry* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->begin, 12u);
  EXPECT_EQ(file->data(*b).size(), 16u);
  EXPECT_EQ(file->data(*file->find("empty")).size(), 0u);
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(Safetensors, AcceptsWhatIsLegal) {
  EXPECT_TRUE(parse(with_length("{}")).ok());
  EXPECT_TRUE(parse(with_length("{}      ")).ok());
  EXPECT_TRUE(parse(with_length(R"({"__metadata__":{}})")).ok());
  EXPECT_TRUE(
      parse(with_length(R"({"s":{"shape":[],"data_offsets":[0,8],"dtype":"I64"}})", "12345678"))
          .ok());
  EXPECT_TRUE(
      parse(with_length(R"({"f":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "ab"))
          .ok());
  EXPECT_TRUE(parse(with_length(R"({"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})")).ok());
}

struct Malformed {
  const char* what;
  std::string bytes;
  const char* message;
};

std::string entry(const std::string& fields, const std::string& data = std::string(8, 'x')) {
  return with_length("{\"w\":{" + fields + "}}", data);
}

std::vector<Malformed> malformed() {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string two = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  std::string long_length = with_length("{}");
  long_length[3] = 0x10;
  return {
      {"empty file", "", "shorter than the length word"},
      {"seven bytes", "1234567", "shorter than the length word"},
      {"length past the file", long_length, "limit"},
      {"length one past the file", with_length("{} ").substr(0, 10), "in a file of 10"},
      {"length near 2^64", std::string(8, '\xff') + "{}", "limit"},
      {"no header", with_length(""), "does not begin"},
      {"space before the brace", with_length(" {}"), "does not begin"},
      {"an array", with_length("[]"), "does not begin"},
      {"byte order mark", with_length("\xef\xbb\xbf{}"), "does not begin"},
      {"cut JSON", with_length(R"({"w":{"dtype":"F32")"), "not UTF-8 JSON"},
      {"text behind", with_length("{}{}"), "not UTF-8 JSON"},
      {"zero byte behind", with_length(std::string("{}\0", 3)), "a zero byte"},
      {"not UTF-8", with_length("{\"\xff\":{}}"), "not UTF-8"},
      {"half a surrogate", with_length(R"({"\ud800":{}})"), "not UTF-8"},
      {"name twice",
       with_length(two + R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "12345678"),
       "\"a\" twice"},
      {"field twice", entry(good + R"(,"dtype":"F32")"), "\"dtype\" twice"},
      {"metadata key twice", with_length(R"({"__metadata__":{"a":"1","a":"2"}})"), "\"a\" twice"},
      {"metadata not text", with_length(R"({"__metadata__":{"a":1}})"), "number"},
      {"metadata a string", with_length(R"({"__metadata__":"pt"})"), "string"},
      {"unknown field", entry(good + R"(,"stride":[1])"), "unknown field"},
      {"no dtype", entry(R"("shape":[2],"data_offsets":[0,8])"), "lacks a field"},
      {"unknown dtype", entry(R"("dtype":"F128","shape":[2],"data_offsets":[0,8])"), "F128"},
      {"dtype a number", entry(R"("dtype":4,"shape":[2],"data_offsets":[0,8])"), "number 4"},
      {"negative dim", entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "negative"},
      {"fractional dim", entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "2.0"},
      {"dim past 64 bits",
       entry(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"), "number"},
      {"dim past signed 64 bits",
       entry(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"), "dim of"},
      {"product past 64 bits",
       entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "64 bits"},
      {"shape an object", entry(R"("dtype":"F32","shape":{},"data_offsets":[0,8])"), "object"},
      {"shape nested", entry(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "array"},
      {"one offset", entry(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "lacks an offset"},
      {"three offsets", entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), "third"},
      {"offsets reversed", entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "offsets [8, 0)"},
      {"size differs", entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "12 bytes"},
      {"end past the file", entry(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "8 bytes"},
      {"data left over", entry(good, std::string(9, 'x')), "9 bytes"},
      {"data without tensors", with_length("{}", "x"), "1 bytes"},
      {"hole at the start", entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "hole"},
      {"hole",
       with_length(two + R"("b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})", "12345678"),
       "hole"},
      {"overlap",
       with_length(two + R"("b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})", "12345678"),
       "overlapping"},
      {"tensor a number", with_length(R"({"w":1})"), "number 1"},
      {"tensor null", with_length(R"({"w":null})"), "null"},
      {"deep nesting", with_length("{\"w\":" + std::string(100'000, '[')), "array"},
  };
}

TEST(Safetensors, RejectsMalformedHeaders) {
  const auto cases = malformed();
  EXPECT_GE(cases.size(), 30u);
  for (const Malformed& c : cases) {
    const auto header = parse(c.bytes);
    ASSERT_FALSE(header.ok()) << c.what;
    EXPECT_THAT(header.error().message, HasSubstr(c.message)) << c.what;
    EXPECT_THAT(header.error().message, HasSubstr("byte")) << c.what;
  }
}

TEST(Safetensors, FaultsOfTheHeaderHaveTheirPlace) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"strides":1}})";
  const auto parsed = parse(with_length(header));
  ASSERT_FALSE(parsed.ok());
  const std::size_t at = header.find("\":1}");  // the name's end, where it is known whole
  EXPECT_THAT(parsed.error().message, HasSubstr("header byte " + std::to_string(at) + ":"));
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = with_length(kKnownHeader, std::string(8, 'x'));
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse(whole.substr(0, n)).ok()) << n;
}

TEST(Safetensors, OpenNamesTheFile) {
  const TempDir dir;
  EXPECT_EQ(File::open(dir / "absent").error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(write_file_atomic(dir / "bad", "x").ok());
  EXPECT_THAT(File::open(dir / "bad").error().where, HasSubstr("bad"));
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
  EXPECT_FALSE(plan_layout({{"a", Dtype::kF32, {1}}, {"a", Dtype::kF32, {1}}}, {}).ok());
  EXPECT_FALSE(plan_layout({{"__metadata__", Dtype::kF32, {1}}}, {}).ok());
  EXPECT_FALSE(plan_layout({{"a", Dtype::kF32, {-1}}}, {}).ok());
  EXPECT_FALSE(plan_layout({{"a", Dtype::kF8E4M3, {1}}}, {}).ok());
  EXPECT_FALSE(plan_layout({{"\xff", Dtype::kF32, {1}}}, {}).ok());
}

}  // namespace
}  // namespace sx::safetensors
