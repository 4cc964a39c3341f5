#include "sextant/data/order_lookup.h"

#include <gtest/gtest.h>

#include "sextant/data/megatron_dataset.h"

namespace sx {
namespace {

LoaderOptions lookup_options() {
  LoaderOptions options;
  options.seed = 5;
  options.seq_len = 16;
  options.micro_batch_size = 4;
  options.workers = 0;
  return options;
}

void expect_lookup_agrees(const std::shared_ptr<const Dataset>& dataset) {
  const OrderLookup lookup = OrderLookup::make(dataset, lookup_options()).value();
  EXPECT_EQ(lookup.positions_per_step(), 4u);
  Loader loader = Loader::open(dataset, lookup_options()).value();
  for (std::uint64_t step = 0; step < 40; ++step) {
    const Batch batch = loader.next().value();
    for (std::uint64_t row = 0; row < 4; ++row) {
      const std::uint64_t position = 4 * step + row;
      const OrderLookup::Entry entry = lookup.at(position).value();
      EXPECT_EQ(entry.sample, batch.keys[row]);
      const auto tokens = std::as_const(batch).tokens().subspan(16 * row, 16);
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), entry.tokens.begin()));
      const auto places = lookup.positions_of(entry.key).value();
      EXPECT_EQ(std::count(places.begin(), places.end(), position), 1) << position;
    }
    EXPECT_EQ(lookup.hash_of_steps(step + 1).hex(), loader.state().consumed_hash);
  }
}

TEST(OrderLookup, FindsEachUnitWhereTheLoaderGivesIt) {
  const auto native = Dataset::from_members({{"a", make_mock_source(1, 500, 50), 3},
                                             {"b", make_mock_source(2, 300, 50), 2},
                                             {"c", make_mock_source(3, 300, 50), 0}});
  expect_lookup_agrees(native);
  const OrderLookup lookup = OrderLookup::make(native, lookup_options()).value();
  EXPECT_FALSE(lookup.size());
  EXPECT_TRUE(lookup.positions_of({2, 0, 0}).value().empty());  // weight 0: never drawn
  EXPECT_FALSE(lookup.positions_of({3, 0, 0}).ok());
  EXPECT_FALSE(lookup.positions_of({0, 0, 10000}).ok());

  MegatronConfig config;
  config.seq_len = 16;
  config.use_cache = false;
  config.split = "1";
  config.blend = {{"a", "b"}, std::vector<double>{.5, .5}};
  config.open_other = [](const std::string& path) {
    return make_document_sequences(make_mock_source(path == "a" ? 1 : 2, 900, 50));
  };
  const auto splits = open_megatron_datasets(config, {200, {}, {}}).value();
  expect_lookup_agrees(Dataset::from_megatron(splits[0], ""));
}

TEST(OrderLookup, KeysAreWrittenAndReadBack) {
  const UnitKey key{3, 2, 12345678901};
  EXPECT_EQ(key.to_string(), "3:2:12345678901");
  EXPECT_EQ(parse_unit_key(key.to_string()).value(), key);
  for (const char* text : {"", "1", "1:2", "1:2:", "1:2:3:", "a:2:3", "1:2:3x", "-1:2:3", "1::3"}) {
    EXPECT_FALSE(parse_unit_key(text).ok()) << text;
  }
}

}  // namespace
}  // namespace sx
