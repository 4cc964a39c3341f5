#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sextant/base/units.h"
#include "sextant/dist/communicator.h"
#include "sextant/dist/rendezvous.h"
#include "sextant/mesh/group_plan.h"

namespace sx {

/// Whether this build can talk over NCCL (option SX_CUDA).
bool nccl_is_built();
/// "2.28.9"; empty without NCCL.
std::string nccl_version();

struct NcclOptions {
  std::int64_t global_rank = 0;
  std::int64_t world_size = 1;
  int device = 0;  ///< of this process or thread; two ranks may not share one
  Seconds init_timeout{300.0};
  Seconds timeout{600.0};  ///< of one call
  /// Reductions as an exchange and a fold in ascending rank order on the device, 16-bit floats in
  /// fp32 with one rounding: the bits of the other transports, for about the same bytes. Without it
  /// NCCL sums in an order of its own, 16-bit floats in their own type at each hop.
  bool ordered = false;
};

/// One rank's side of a world of GPUs.
///
/// All communicators of the plan are made here, by splits of one world communicator in the order of
/// the plan, one split per axes and purpose: every rank must call it with the same plan.
/// `Communicator::make_group` then finds them; a group outside the plan is a contract error.
///
/// Calls are ordered by streams: `wait()` lets the current stream wait, `wait_host()` the host.
/// Each purpose has a side stream, that of reductions with high priority. Sends and receives match
/// in the order of the calls between two ranks; NCCL has no tags.
///
/// Threads: used by the thread that made it, but for `Communicator::abort`. A watcher asks every
///          communicator for errors; on one, or on a time-out, all are aborted.
/// Errors:  ConfigError SX2-005 (built without NCCL), FatalError SX4-001 (the ranks did not come
///          together).
class NcclWorld {
 public:
  NcclWorld(RankStore& store, const GroupPlan& plan, const NcclOptions& options);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  /// The communicator over all ranks, for `purpose`; make_group of it finds those of the plan.
  Communicator world(AxisSet axis, Purpose purpose, std::shared_ptr<CommSession> session);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace sx
