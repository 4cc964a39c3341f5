#include "sextant/recipe/key_table.h"

#include <gtest/gtest.h>

#include <set>

#include "sextant/recipe/load.h"

namespace sx {
namespace {

LoadedRecipe with(const std::string& key, const std::string& value) {
  return load_recipe({.sets = {{key, value}}});
}

bool has_fault(const LoadedRecipe& loaded, int number, const std::string& key) {
  for (const Diagnostic& fault : loaded.faults) {
    if (fault.number == number && fault.where.find("(" + key + ")") != std::string::npos)
      return true;
  }
  return false;
}

std::string all(const LoadedRecipe& loaded) {
  std::string text;
  for (const Diagnostic& fault : loaded.faults) text += fault.to_string() + "\n";
  return text;
}

TEST(KeyTable, NamesAreUniqueAndGrouped) {
  std::set<std::string> seen;
  for (const KeySpec& key : key_table()) {
    EXPECT_TRUE(seen.insert(key.name).second) << key.name;
    for (const std::string& alias : key.aliases) EXPECT_TRUE(seen.insert(alias).second) << alias;
    EXPECT_FALSE(key.text.empty()) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
  }
  const std::vector<std::string> groups = key_groups();
  EXPECT_EQ(std::set<std::string>(groups.begin(), groups.end()).size(), groups.size())
      << "the keys of a group stand together";
}

/// A table is no value of any key.
TEST(KeyTable, EveryKeyRefusesAWrongType) {
  for (const KeySpec& key : key_table()) {
    const LoadedRecipe loaded = with(key.name, "[[1.5]]");
    EXPECT_TRUE(has_fault(loaded, 2, key.name)) << key.name << "\n" << all(loaded);
  }
}

TEST(KeyTable, EveryRangeHasTeeth) {
  int ranged = 0;
  for (const KeySpec& key : key_table()) {
    if (key.range.empty()) continue;
    ++ranged;
    const bool bytes = key.type == "bytes";
    const bool duration = key.type == "duration";
    const std::string below = bytes ? "\"0B\"" : duration ? "\"0s\"" : "-1000000000";
    const LoadedRecipe loaded = with(key.name, below);
    EXPECT_TRUE(has_fault(loaded, 3, key.name)) << key.name << " = " << below << "\n"
                                                << all(loaded);
    if (key.range.find(" to ") == std::string::npos) continue;
    const std::string above = key.type.starts_with("float") ? "1e9" : "9000000000000000000";
    const LoadedRecipe high = with(key.name, above);
    EXPECT_TRUE(has_fault(high, 3, key.name)) << key.name << " = " << above << "\n" << all(high);
  }
  EXPECT_GT(ranged, 40);
}

TEST(KeyTable, EveryClosedListRefusesOtherWords) {
  for (const KeySpec& key : key_table()) {
    if (!key.type.starts_with("one of")) continue;
    const LoadedRecipe loaded = with(key.name, "no-such-word");
    ASSERT_TRUE(has_fault(loaded, 3, key.name)) << key.name << "\n" << all(loaded);
    EXPECT_NE(all(loaded).find("one of \""), std::string::npos) << "the message lists the words";
  }
}

TEST(KeyTable, UnknownKeysAreHintedInEveryGroup) {
  for (const KeySpec& key : key_table()) {
    // Names as short as tp and ep are one slip from each other.
    if (key.name.size() < 8 || key.name.size() - key.name.rfind('.') <= 4) continue;
    std::string slip = key.name;
    std::swap(slip[slip.size() - 1], slip[slip.size() - 2]);
    if (slip == key.name || find_key(slip) != nullptr) continue;
    const LoadedRecipe loaded = with(slip, "1");
    ASSERT_EQ(loaded.faults.size(), 1u) << slip;
    EXPECT_EQ(loaded.faults[0].number, 1);
    EXPECT_NE(loaded.faults[0].what.find("did you mean " + key.name), std::string::npos)
        << loaded.faults[0].what;
  }
}

TEST(KeyTable, RightLeafInTheWrongGroupIsHinted) {
  EXPECT_EQ(nearest_key("trainer.weight_decay"), "optimizer.weight_decay");
}

TEST(KeyTable, DefaultsAreInsideTheirOwnRules) {
  const Recipe defaults;
  for (const KeySpec& key : key_table()) {
    if (key.required || key.read(defaults) == Json("auto") ||
        key.default_value.find("auto") != std::string::npos)
      continue;
    Recipe copy;
    EXPECT_EQ(key.write(copy, key.read(defaults)), KeySpec::Write::kOk) << key.name;
    EXPECT_EQ(key.read(copy), key.read(defaults)) << key.name;
  }
}

TEST(KeyValue, ReadsUnits) {
  const LoadedRecipe loaded = load_recipe({.sets = {{"training.steps", "\"12k\""},
                                                    {"training.seq_len", "1_024"},
                                                    {"crawl.max_payload", "10MB"},
                                                    {"comm.timeout", "1.5h"},
                                                    {"checkpoint.interval", "250 steps"},
                                                    {"training.micro_batch_size", "1e1"}}});
  ASSERT_TRUE(loaded.faults.empty()) << all(loaded);
  const Recipe& recipe = loaded.recipe.get();
  EXPECT_EQ(recipe.training.steps, 12000);
  EXPECT_EQ(recipe.training.seq_len, 1024);
  EXPECT_EQ(recipe.training.micro_batch_size, 10);
  EXPECT_EQ(recipe.crawl.max_payload.value, 10'000'000);
  EXPECT_DOUBLE_EQ(recipe.comm.timeout.value, 5400);
  EXPECT_EQ(recipe.checkpoint.interval.steps, 250);
  const LoadedRecipe timed = with("checkpoint.interval", "30min");
  EXPECT_DOUBLE_EQ(timed.recipe->checkpoint.interval.duration.value, 1800);
}

TEST(KeyValue, CanonicalFormsReadBack) {
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 10,
        (std::int64_t{1} << 30) + 1, std::int64_t{5} << 40}) {
    Bytes back;
    ASSERT_TRUE(read_value(write_value(Bytes(bytes)), back));
    EXPECT_EQ(back.value, bytes);
  }
  for (const double seconds : {0.0, 0.25, 1.0 / 3, 90.0, 86400.5, 2.5e-4}) {
    Seconds back;
    ASSERT_TRUE(read_value(write_value(Seconds(seconds)), back)) << write_value(Seconds(seconds));
    EXPECT_DOUBLE_EQ(back.value, seconds);
  }
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::uint64_t back = 1;
    ASSERT_TRUE(read_value(write_value(seed), back));
    EXPECT_EQ(back, seed);
  }
  std::uint64_t overflow = 0;
  EXPECT_FALSE(read_value(Json("18446744073709551616"), overflow));
  EXPECT_FALSE(read_value(Json(-1), overflow));
}

}  // namespace
}  // namespace sx
