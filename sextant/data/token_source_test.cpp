#include "sextant/data/token_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "sextant/data/dataset.h"

namespace sx {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;

std::shared_ptr<const TokenSource> documents(const std::vector<int>& lengths) {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> starts;
  for (const int length : lengths) {
    starts.push_back(tokens.size());
    for (int i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  return make_memory_source(std::move(tokens), std::move(starts));
}

TEST(Split, Parses) {
  EXPECT_EQ(parse_split("969,30,1").value(),
            (std::vector<std::uint64_t>{969000000000, 30000000000, 1000000000}));
  EXPECT_EQ(parse_split("1").value(), (std::vector<std::uint64_t>{1000000000, 0, 0}));
  EXPECT_EQ(parse_split("99.5, 0.5").value(),
            (std::vector<std::uint64_t>{99500000000, 500000000, 0}));
  for (const char* bad : {"", ",", "1,2,3,4", "a", "-1,2", "0,0,0", "1,,1", "1.2.3", "1e3",
                          "0.1234567891", "1,", "."}) {
    EXPECT_EQ(parse_split(bad).error().kind, ErrorKind::kInvalid) << bad;
  }
}

TEST(Split, CutsAtTheNearestDocumentBorder) {
  const auto source = documents({10, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  const auto cut = [&](const char* text) { return cut_split(*source, parse_split(text).value()); };
  EXPECT_EQ(cut("8,1,1"), (std::vector<Range>{{0, 8}, {8, 9}, {9, 10}}));
  EXPECT_EQ(cut("1"), (std::vector<Range>{{0, 10}, {10, 10}, {10, 10}}));
  EXPECT_EQ(cut("0,1"), (std::vector<Range>{{0, 0}, {0, 10}, {10, 10}}));
  EXPECT_EQ(cut("55,45"),
            (std::vector<Range>{{0, 5}, {5, 10}, {10, 10}}));  // token 55: as near to 50 as to 60
  EXPECT_EQ(cut("56,44"), (std::vector<Range>{{0, 6}, {6, 10}, {10, 10}}));
  const auto uneven = documents({0, 90, 0, 10});
  EXPECT_EQ(cut_split(*uneven, parse_split("9,1").value())[0], (Range{0, 2}));
}

TEST(DocumentRange, IsTheWholeFromItsFirstToken) {
  const auto source = documents({3, 0, 4, 5});
  const auto part = make_document_range(source, 1, 3);
  EXPECT_EQ(part->num_tokens(), 4u);
  EXPECT_EQ(part->num_documents(), 2u);
  EXPECT_EQ(part->document_start(1), 0u);
  std::vector<std::int32_t> out(4);
  ASSERT_TRUE(part->read(0, out).ok());
  EXPECT_EQ(out, (std::vector<std::int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(source->document_at(2), 0u);
  EXPECT_EQ(source->document_at(3), 2u);
  EXPECT_EQ(source->document_at(11), 3u);
}

TEST(MockSource, AnySliceIsTheSame) {
  const auto source = make_mock_source(5, 5000, 17);
  std::vector<std::int32_t> all(5000), slice(100);
  ASSERT_TRUE(source->read(0, all).ok());
  ASSERT_TRUE(source->read(1234, slice).ok());
  EXPECT_TRUE(std::equal(slice.begin(), slice.end(), all.begin() + 1234));
  for (const std::int32_t token : all) EXPECT_TRUE(token >= 0 && token < 17);
  EXPECT_EQ(source->document_start(source->num_documents()), 5000u);
}

TEST(Weights, AreScaledToIntegers) {
  EXPECT_EQ(integer_weights({5, 3, 2}).value(), (std::vector<std::uint64_t>{5, 3, 2}));
  EXPECT_EQ(integer_weights({0.5, 0.25, 0}).value(),
            (std::vector<std::uint64_t>{1000000000, 500000000, 0}));
  EXPECT_EQ(integer_weights({4294967296.0, 1}).value(),
            (std::vector<std::uint64_t>{1000000000, 0}));
  EXPECT_FALSE(integer_weights({0, 0}).ok());
  EXPECT_FALSE(integer_weights({1, -1}).ok());
  EXPECT_FALSE(integer_weights({1, std::numeric_limits<double>::infinity()}).ok());
}

TEST(Dataset, DemoIsBytesWithEndOfDocument) {
  Dataset::Options options;
  options.paths = {"demo"};
  options.demo_bytes = 100000;
  const auto train = Dataset::open(options).value();
  options.part = SplitPart::kValid;
  const auto valid = Dataset::open(options).value();
  options.part = SplitPart::kTest;
  const auto test = Dataset::open(options);
  EXPECT_GT(train->num_tokens(), 90000u);
  EXPECT_GT(valid->num_tokens(), 1000u);
  EXPECT_NE(train->plan_hash(), valid->plan_hash());
  const TokenSource& source = *valid->members()[0].source;
  std::vector<std::int32_t> tokens(source.num_tokens());
  ASSERT_TRUE(source.read(0, tokens).ok());
  EXPECT_EQ(tokens.back(), 256);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 256),
            static_cast<std::ptrdiff_t>(source.num_documents()));
}

// Megatron-LM loops for ever on a split part without tokens; here it is an error that names part,
// split and prefix.
TEST(Dataset, AnEmptyPartIsAnError) {
  Dataset::Options options;
  options.paths = {"mock"};
  options.mock_tokens = 2000;
  options.part = SplitPart::kTest;
  const auto dataset = Dataset::open(options);
  ASSERT_FALSE(dataset.ok());
  EXPECT_EQ(dataset.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(dataset.error().message.find("test part of split 969,30,1 is empty"),
            std::string::npos);
  EXPECT_EQ(dataset.error().where, "mock");
}

TEST(Dataset, ALeafThatComesTwiceHasItsOwnName) {
  Dataset::Options options;
  options.paths = {"mock", "mock", "mock"};
  options.mock_tokens = 2000;
  const auto dataset = Dataset::open(options).value();
  EXPECT_EQ(dataset->members()[1].path_id, "mock#1");
  EXPECT_EQ(dataset->members()[2].path_id, "mock#2");
  options.weights = {1};
  EXPECT_EQ(Dataset::open(options).error().kind, ErrorKind::kInvalid);
  options.paths = {"no/such/prefix"};
  EXPECT_EQ(Dataset::open(options).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace sx
