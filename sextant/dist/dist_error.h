#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "sextant/base/units.h"
#include "sextant/dist/collectives.h"
#include "sextant/mesh/axis.h"

namespace sx {

enum class DistFault : std::uint8_t {
  kTimeout,    ///< a peer did not join the call in time; the message names the missing ranks
  kMismatch,   ///< two ranks made different calls at the same place; the message shows both
  kDeadlock,   ///< every rank waits for another one; the message shows all waits
  kPeerLeft,   ///< a peer ended its work without joining the call
  kPeerLost,   ///< a peer's process is gone
  kCorrupted,  ///< bytes of a rank came altered; `origin_rank` is that rank
  kAborted,    ///< another rank failed first; `origin_rank` and the message tell which and why
};

/// A collective that failed. The communicators of the world are aborted by then: no rank may catch
/// this and go on; it travels to `main`, which ends the process with ExitCode::kPeer.
class DistError : public std::runtime_error {
 public:
  DistError(DistFault fault, AxisSet axis, Collective op, std::uint64_t sequence,
            std::int64_t bytes, Seconds waited, std::int64_t origin_rank,
            const std::string& message);

  DistFault fault() const { return fault_; }
  AxisSet axis() const { return axis_; }
  Collective op() const { return op_; }
  /// Position of the call among the calls of its communicator, from 0.
  std::uint64_t sequence() const { return sequence_; }
  /// Bytes of the rank's own buffer in the call.
  std::int64_t bytes() const { return bytes_; }
  Seconds waited() const { return waited_; }
  /// Global rank that failed first, or the rank that found the fault.
  std::int64_t origin_rank() const { return origin_rank_; }

 private:
  DistFault fault_;
  AxisSet axis_;
  Collective op_;
  std::uint64_t sequence_;
  std::int64_t bytes_;
  Seconds waited_;
  std::int64_t origin_rank_;
};

}  // namespace sx
