#pragma once

#include <cstdint>
#include <string>

namespace sx {

/// Where the parameters of one buffer stand between their shards and whole memory, and whether
/// their gradients are being reduced. The only legal moves are those of `after`.
enum class ShardedState : std::uint8_t {
  kSharded,
  kGathering,
  kGathered,
  kGatheredReducing,
  kShardedReducing,
  kGatheringReducing,
};
inline constexpr int kNumShardedStates = 6;

enum class ShardedEvent : std::uint8_t {
  kStartGather,
  kWaitGather,
  kRelease,
  kStartReduce,
  kWaitReduce,
  kAbort,  ///< what is in flight has been drained
};
inline constexpr int kNumShardedEvents = 6;

const char* to_string(ShardedState state);
const char* to_string(ShardedEvent event);

/// The state that follows. Asking for what is there already changes nothing (a second
/// start_gather). Errors: ContractError naming `buffer`, state and event for a move there is none
/// for.
ShardedState after(ShardedState state, ShardedEvent event, const std::string& buffer);

inline bool is_gathered(ShardedState s) {
  return s == ShardedState::kGathered || s == ShardedState::kGatheredReducing;
}
inline bool is_gathering(ShardedState s) {
  return s == ShardedState::kGathering || s == ShardedState::kGatheringReducing;
}
inline bool is_reducing(ShardedState s) {
  return s == ShardedState::kGatheredReducing || s == ShardedState::kShardedReducing ||
         s == ShardedState::kGatheringReducing;
}

}  // namespace sx
