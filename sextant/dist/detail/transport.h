#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/collectives.h"
#include "sextant/dist/communicator.h"
#include "sextant/mesh/axis.h"

namespace sx::detail {

struct Descriptor;

/// An operation between `start_*` and the end of `wait()`. Used by the rank that started it.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual void wait() = 0;
  /// As `wait()`, and blocks the host where `wait()` only orders streams.
  virtual void wait_host() { wait(); }
  /// Whether `wait()` would return or throw at once; makes what progress it can, never blocks.
  virtual bool poll() noexcept = 0;
  /// Its handle goes without a wait.
  virtual void drop() noexcept = 0;
};

/// Who a communicator joins.
struct GroupInfo {
  std::vector<std::int64_t> global_ranks;
  std::int64_t coord = 0;
  AxisSet axis;
  Purpose purpose = Purpose::kControl;

  std::int64_t degree() const { return static_cast<std::int64_t>(global_ranks.size()); }
};

/// How the calls of one communicator are carried out. One object per rank and group.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const GroupInfo& group() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  /// Starts a call. `operation` has passed `check_operation`, which also fills in even counts.
  /// `descriptor` is what ranks compare: it carries the call's place in the sequence and the
  /// schedule hash of all calls before it, both kept by the Communicator. `timeout` is the longest
  /// wait for this call. Null = already done.
  virtual std::shared_ptr<PendingOperation> start(Operation operation, Descriptor descriptor,
                                                  Seconds timeout) = 0;
  virtual std::unique_ptr<Transport> make_group(GroupInfo group) = 0;
  virtual void abort(const std::string& reason) = 0;
};

std::unique_ptr<Transport> make_solo_transport(GroupInfo group);

}  // namespace sx::detail
