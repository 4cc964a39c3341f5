#include "sextant/trace/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "sextant/trace/number_text.h"

namespace sx {
namespace {

TEST(JsonText, NumbersAreShortestAndRoundTrip) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(3.0), "3");
  EXPECT_EQ(json_number(3e-4), "3e-04");
  EXPECT_EQ(json_number(1e-7), "1e-07");
  EXPECT_EQ(json_number(5e-324), "5e-324");
  EXPECT_EQ(json_number(-0.0), "-0");
  std::uint64_t state = 88172645463325252u;
  for (int i = 0; i < 2000; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    double value = 0;
    std::memcpy(&value, &state, sizeof value);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value);
  }
}

TEST(JsonText, NonFiniteNumbersAreStrings) {
  const nlohmann::ordered_json value = {{"a", std::nan("")},
                                        {"b", std::numeric_limits<double>::infinity()},
                                        {"c", -std::numeric_limits<double>::infinity()}};
  const std::string line = json_line(value);
  EXPECT_EQ(line, R"({"a":"nan","b":"inf","c":"-inf"})");
  const auto back = nlohmann::ordered_json::parse(line);
  EXPECT_TRUE(std::isnan(*number_of(back["a"])));
  EXPECT_EQ(*number_of(back["b"]), std::numeric_limits<double>::infinity());
  EXPECT_FALSE(number_of(nlohmann::ordered_json("1.5")).ok());
  EXPECT_FALSE(number_of(nlohmann::ordered_json(true)).ok());
}

TEST(JsonText, KeepsOrderAndReplacesBrokenUtf8) {
  const nlohmann::ordered_json value = {{"z", 1}, {"a", {1, 2.5, "x\"\n"}}, {"m", "\xff"}};
  EXPECT_EQ(json_line(value), "{\"z\":1,\"a\":[1,2.5,\"x\\\"\\n\"],\"m\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(json_pretty({{"a", nlohmann::ordered_json::array({1})},
                         {"b", nlohmann::ordered_json::object()}}),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}\n");
}

TEST(NumberText, ForPeople) {
  EXPECT_EQ(group_thousands(1234567), "1\u2009234\u2009567");
  EXPECT_EQ(group_thousands(-1000), "\u22121\u2009000");
  EXPECT_EQ(group_thousands(999), "999");
  EXPECT_EQ(three_digits(0.91), "0.91");
  EXPECT_EQ(three_digits(9.996), "10");
  EXPECT_EQ(three_digits(9.996, true), "10.0");
  EXPECT_EQ(three_digits(12345.6), "12\u2009346");
  EXPECT_EQ(three_digits(3e-4), "3.0e-04");
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(std::nan("")), "nan");
  EXPECT_EQ(count_text(2140), "2\u2009140");
  EXPECT_EQ(count_text(999999), "999\u2009999");
  EXPECT_EQ(count_text(2914332), "2.91\u00a0M");
  EXPECT_EQ(count_text(999.7e6), "1.00\u00a0G");
  EXPECT_EQ(rate_text(34612), "34.6\u00a0k");
  EXPECT_EQ(rate_text(918.4), "918");
  EXPECT_EQ(bytes_text(512), "512\u00a0B");
  EXPECT_EQ(bytes_text(61.4 * 1073741824), "61.4\u00a0GiB");
  EXPECT_EQ(bytes_text(1023.9), "1.00\u00a0KiB");
  EXPECT_EQ(seconds_text(0.512), "512\u00a0ms");
  EXPECT_EQ(seconds_text(3.2), "3.2\u00a0s");
  EXPECT_EQ(seconds_text(125), "2\u00a0min\u00a05\u00a0s");
  EXPECT_EQ(seconds_text(11520), "3\u00a0h\u00a012\u00a0min");
  EXPECT_EQ(seconds_text(2e-6), "2\u00a0\u00b5s");
  EXPECT_EQ(percent_text(0.412), "41.2\u00a0%");
  EXPECT_EQ(percent_text(0.00714), "0.71\u00a0%");
  EXPECT_EQ(percent_text(0.00001), "<\u20090.01\u00a0%");
  EXPECT_EQ(percent_text(0), "0\u00a0%");
  EXPECT_EQ(percent_text(1), "100\u00a0%");
}

}  // namespace
}  // namespace sx
