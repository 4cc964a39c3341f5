#pragma once

#include <cstdint>

namespace sx {

/// What a group of ranks talks about; two communicators over the same ranks differ in it, so that a
/// gather never waits behind a reduction.
enum class Purpose : std::uint8_t {
  kGather,
  kReduce,
  kReplicate,
  kP2pForward,
  kP2pBackward,
  kControl
};

/// "gather", "p2p_forward", ...
const char* to_string(Purpose purpose);

}  // namespace sx
