#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sextant/base/units.h"
#include "sextant/dist/wire.h"
#include "sextant/dist/rendezvous.h"

namespace sx::detail {

struct SocketWireOptions {
  std::int64_t global_rank = 0;
  std::int64_t world_size = 1;
  Seconds timeout{300.0};  ///< until every rank is connected
  std::string address;     ///< own address for the others; empty = chosen (see socket_wire.cpp)
};

/// A TCP connection between every two ranks. Each rank listens on a port of its own, publishes it
/// in the store, connects to all smaller ranks and is greeted by all larger ones; a greeting holds
/// a number that only readers of the store know.
/// Errors:  IoError SX3-009 (a socket cannot be made), FatalError SX4-001 (ranks that did not come,
///          named).
std::unique_ptr<Wire> make_socket_wire(RankStore& store, const SocketWireOptions& options);

}  // namespace sx::detail
