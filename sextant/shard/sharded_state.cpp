#include "sextant/shard/sharded_state.h"

#include <array>
#include <optional>

#include "sextant/base/check.h"

namespace sx {
namespace {

using S = ShardedState;
using Row = std::array<std::optional<S>, kNumShardedEvents>;

// Columns: start_gather, wait_gather, release, start_reduce, wait_reduce, abort.
constexpr std::array<Row, kNumShardedStates> kTable = {{
    /* sharded             */ {S::kGathering, {}, S::kSharded, {}, {}, S::kSharded},
    /* gathering           */ {S::kGathering, S::kGathered, {}, {}, {}, S::kSharded},
    /* gathered            */
    {S::kGathered, S::kGathered, S::kSharded, S::kGatheredReducing, {}, S::kSharded},
    /* gathered, reducing  */
    {S::kGatheredReducing,
     S::kGatheredReducing,
     S::kShardedReducing,
     {},
     S::kGathered,
     S::kSharded},
    /* sharded, reducing   */
    {S::kGatheringReducing, {}, S::kShardedReducing, {}, S::kSharded, S::kSharded},
    /* gathering, reducing */
    {S::kGatheringReducing, S::kGatheredReducing, {}, {}, S::kGathering, S::kSharded},
}};

}  // namespace

const char* to_string(ShardedState state) {
  constexpr const char* names[] = {"sharded",
                                   "gathering",
                                   "gathered",
                                   "gathered and reducing",
                                   "sharded and reducing",
                                   "gathering and reducing"};
  return names[static_cast<std::size_t>(state)];
}

const char* to_string(ShardedEvent event) {
  constexpr const char* names[] = {"start_gather", "wait_gather", "release",
                                   "start_reduce", "wait_reduce", "abort"};
  return names[static_cast<std::size_t>(event)];
}

ShardedState after(ShardedState state, ShardedEvent event, const std::string& buffer) {
  const std::optional<S> next =
      kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
  SX_CHECK(next.has_value(), "{}: {} while {}", buffer, to_string(event), to_string(state));
  return *next;
}

}  // namespace sx
