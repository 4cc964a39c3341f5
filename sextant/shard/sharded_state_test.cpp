#include "sextant/shard/sharded_state.h"

#include <gtest/gtest.h>

#include <map>

#include "sextant/base/check.h"

namespace sx {
namespace {

// Every cell: the state that follows, or "-" for a contract error.
TEST(ShardedState, EveryMoveOfTheTable) {
  const std::map<std::string, std::vector<std::string>> table = {
      {"sharded", {"gathering", "-", "sharded", "-", "-", "sharded"}},
      {"gathering", {"gathering", "gathered", "-", "-", "-", "sharded"}},
      {"gathered", {"gathered", "gathered", "sharded", "gathered and reducing", "-", "sharded"}},
      {"gathered and reducing",
       {"gathered and reducing", "gathered and reducing", "sharded and reducing", "-", "gathered",
        "sharded"}},
      {"sharded and reducing",
       {"gathering and reducing", "-", "sharded and reducing", "-", "sharded", "sharded"}},
      {"gathering and reducing",
       {"gathering and reducing", "gathered and reducing", "-", "-", "gathering", "sharded"}},
  };
  for (int s = 0; s < kNumShardedStates; ++s) {
    const auto state = static_cast<ShardedState>(s);
    for (int e = 0; e < kNumShardedEvents; ++e) {
      const auto event = static_cast<ShardedEvent>(e);
      const std::string& expected = table.at(to_string(state))[static_cast<std::size_t>(e)];
      if (expected == "-") {
        try {
          (void)after(state, event, "layers.3");
          ADD_FAILURE() << to_string(state) << " " << to_string(event);
        } catch (const ContractError& error) {
          const std::string text = error.what();
          EXPECT_NE(text.find("layers.3"), std::string::npos);
          EXPECT_NE(text.find(to_string(state)), std::string::npos);
          EXPECT_NE(text.find(to_string(event)), std::string::npos);
        }
      } else {
        EXPECT_EQ(to_string(after(state, event, "u")), expected);
      }
    }
  }
}

}  // namespace
}  // namespace sx
