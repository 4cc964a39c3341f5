#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/collectives.h"
#include "sextant/dist/comm_session.h"
#include "sextant/dist/handle.h"
#include "sextant/mesh/axis.h"

namespace sx {

namespace detail {
class Transport;
}

/// What a transport can do. A call outside it is a contract error at the call, on every rank alike.
struct Capabilities {
  const char* transport = "";
  bool cpu = true;
  bool cuda = false;
  bool native_bf16_sum = false;  ///< sums in bf16 per hop instead of in fp32 with one rounding
  bool deterministic = true;     ///< reductions fold in ascending rank order
  bool uneven = true;
  bool overlap = false;  ///< makes progress while the owner computes
  bool p2p_batch = true;
  bool graph_capture = false;
  bool registered_buffers = false;
};

/// An ordered set of ranks that talk to each other.
///
/// Reductions fold in ascending rank order beginning with rank 0's value, 16-bit floats in fp32 and
/// fp64 in fp64 with one final rounding, so results are the same on all ranks and on every run.
///
/// Threads: move-only; used by its owner, the thread of its rank. Calls on one communicator start
///          in the same order on every rank; different communicators are independent, and handles
///          may be waited for in any order.
/// Errors:  ContractError for a call that is wrong in itself; DistError when a peer fails, differs
///          or is late.
class Communicator {
 public:
  /// The communicator of one rank: copies inputs to outputs where they differ.
  static Communicator solo(AxisSet axis = AxisSet::world(), Purpose purpose = Purpose::kControl,
                           std::int64_t global_rank = 0);

  /// `session`: that of the rank; null = one of its own with the options' defaults.
  explicit Communicator(std::unique_ptr<detail::Transport> transport,
                        std::shared_ptr<CommSession> session = nullptr);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  Handle start_broadcast(at::Tensor tensor, std::int64_t root, CallOptions options = {});
  Handle start_all_reduce(at::Tensor tensor, ReduceOp op, CallOptions options = {});
  Handle start_reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op,
                              std::vector<std::int64_t> counts = {}, CallOptions options = {});
  Handle start_all_gather(at::Tensor out, at::Tensor in, std::vector<std::int64_t> counts = {},
                          CallOptions options = {});
  Handle start_all_to_all(at::Tensor out, at::Tensor in, std::vector<std::int64_t> send_counts = {},
                          std::vector<std::int64_t> recv_counts = {}, CallOptions options = {});
  Handle start_send(at::Tensor tensor, std::int64_t to, std::int64_t tag = 0,
                    CallOptions options = {});
  Handle start_recv(at::Tensor tensor, std::int64_t from, std::int64_t tag = 0,
                    CallOptions options = {});
  /// Several calls as one launch; done when all are done.
  Handle start_batch(std::vector<Operation> operations, CallOptions options = {});
  /// Returns when every rank has come here. A time-out names the missing ranks.
  void barrier(CallOptions options = {});

  /// A new communicator over some of this one's ranks (ascending global ranks, own included). Only
  /// members call it; the n-th call of each member with the same ranks and purpose belongs
  /// together.
  Communicator make_group(const std::vector<std::int64_t>& global_ranks, AxisSet axis,
                          Purpose purpose);

  const std::vector<std::int64_t>& global_ranks() const;
  /// Own place among `global_ranks()`.
  std::int64_t coord() const;
  std::int64_t degree() const;
  std::int64_t global_rank() const { return global_ranks()[static_cast<std::size_t>(coord())]; }
  AxisSet axis() const;
  Purpose purpose() const;
  const Capabilities& capabilities() const;
  /// What all communicators of this rank share: flight record, schedule hashes, counts of bytes.
  CommSession& session() { return *session_; }
  /// Puts something between this communicator and its transport.
  void wrap(
      const std::function<std::unique_ptr<detail::Transport>(std::unique_ptr<detail::Transport>)>&
          wrapper);

  /// Ends every call of every rank of the world with a DistError that carries `reason`. Safe from
  /// any thread.
  void abort(const std::string& reason);

 private:
  /// Starts one call; null when it is done already. `number` is that of its flight record.
  std::shared_ptr<detail::PendingOperation> begin(Operation operation, const CallOptions& options,
                                                  std::uint64_t& number);
  Handle start(Operation operation, const CallOptions& options);

  std::unique_ptr<detail::Transport> transport_;
  std::shared_ptr<CommSession> session_;
  std::shared_ptr<detail::CommState> state_;
};

}  // namespace sx
