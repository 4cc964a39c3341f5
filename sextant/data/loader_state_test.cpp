#include "sextant/data/loader_state.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

LoaderState full_state() {
  LoaderState state;
  state.plan_hash = "0123456789abcdef0123456789abcdef";
  state.position = 12345678901234567890u;
  state.seed = 42;
  state.block_tokens = 512;
  state.seq_len = 2048;
  state.weights_history = {{0, {5, 3, 2}}, {1000, {1, 1, 8}}};
  state.skips = {{3, 4}, {10, 20}};
  state.pack = {7, 2};
  state.consumed_hash = "ffffffffffffffff0000000000000000";
  state.torch_version = "2.15.0";
  return state;
}

TEST(LoaderState, HasThePublishedForm) {
  EXPECT_EQ(
      full_state().to_json().dump(),
      R"({"version":1,"mode":"native","plan_hash":"0123456789abcdef0123456789abcdef",)"
      R"("position":12345678901234567890,"seed":42,"unit":"block","block_tokens":512,"seq_len":2048,)"
      R"("weights_history":[{"position":0,"weights":[5,3,2]},{"position":1000,"weights":[1,1,8]}],)"
      R"("skips":[[3,4],[10,20]],"pack":{"window":7,"given":2},)"
      R"("consumed_hash":"ffffffffffffffff0000000000000000","torch_version":"2.15.0"})");
}

TEST(LoaderState, ComesBackEqual) {
  EXPECT_EQ(LoaderState::parse(full_state().to_json().dump()).value(), full_state());
  LoaderState plain;
  plain.block_tokens = plain.seq_len = 1;
  EXPECT_EQ(LoaderState::from_json(plain.to_json()).value(), plain);
}

TEST(LoaderState, RefusesEveryMissingFieldAndWrongType) {
  const auto whole = full_state().to_json();
  for (const auto& [key, value] : whole.items()) {
    if (key == "torch_version") continue;
    auto json = whole;
    json.erase(key);
    const auto missing = LoaderState::from_json(json);
    ASSERT_FALSE(missing.ok()) << key;
    EXPECT_NE(missing.error().message.find(key), std::string::npos) << missing.error().message;
    json[key] = value.is_string() ? nlohmann::ordered_json(7) : nlohmann::ordered_json("x");
    EXPECT_EQ(LoaderState::from_json(json).error().kind, ErrorKind::kCorrupt) << key;
  }
}

TEST(LoaderState, RefusesValuesOutsideTheirRange) {
  const std::pair<const char*, const char*> cases[] = {
      {"version", "2"},
      {"position", "-1"},
      {"position", "1.5"},
      {"mode", "\"other\""},
      {"unit", "\"line\""},
      {"block_tokens", "0"},
      {"seq_len", "0"},
      {"plan_hash", "\"xyz\""},
      {"skips", "[[2,1]]"},
      {"skips", "[[1]]"},
      {"skips", "[[1,5],[3,6]]"},
      {"pack", "{}"},
      {"pack", "[]"},
      {"weights_history", "[{}]"},
      {"weights_history", "[{\"position\":0,\"weights\":[-1]}]"},
      {"weights_history", "[{\"position\":5,\"weights\":[1]},{\"position\":4,\"weights\":[1]}]"},
  };
  for (const auto& [key, value] : cases) {
    auto json = full_state().to_json();
    json[key] = nlohmann::ordered_json::parse(value);
    EXPECT_EQ(LoaderState::from_json(json).error().kind, ErrorKind::kCorrupt)
        << key << ' ' << value;
  }
  for (const char* text : {"", "[]", "7", "{", "null"})
    EXPECT_FALSE(LoaderState::parse(text).ok()) << text;
}

}  // namespace
}  // namespace sx
