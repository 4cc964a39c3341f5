#include "sextant/dist/communicator.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/dist/detail/check_operation.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/transport.h"

namespace sx {
namespace {

/// Done when all its parts are; an error of one part leaves the others to the abort that it stands
/// for.
class BatchOperation final : public detail::PendingOperation {
 public:
  explicit BatchOperation(std::vector<std::shared_ptr<detail::PendingOperation>> parts)
      : parts_(std::move(parts)) {}
  void wait() override {
    for (auto& part : parts_) part->wait();
  }
  bool poll() noexcept override {
    return std::all_of(parts_.begin(), parts_.end(), [](auto& part) { return part->poll(); });
  }
  void drop() noexcept override {
    for (auto& part : parts_) part->drop();
  }

 private:
  std::vector<std::shared_ptr<detail::PendingOperation>> parts_;
};

}  // namespace

Communicator Communicator::solo(AxisSet axis, Purpose purpose, std::int64_t global_rank) {
  return Communicator(detail::make_solo_transport(
      {.global_ranks = {global_rank}, .coord = 0, .axis = axis, .purpose = purpose}));
}

Communicator::Communicator(std::unique_ptr<detail::Transport> transport,
                           std::shared_ptr<CommSession> session)
    : transport_(std::move(transport)), session_(std::move(session)) {
  if (!session_) session_ = std::make_shared<CommSession>(global_rank());
  state_ = session_->add_communicator(transport_->group(), transport_->capabilities().transport);
}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

void Communicator::wrap(
    const std::function<std::unique_ptr<detail::Transport>(std::unique_ptr<detail::Transport>)>&
        wrapper) {
  transport_ = wrapper(std::move(transport_));
}

std::shared_ptr<detail::PendingOperation> Communicator::begin(Operation operation,
                                                              const CallOptions& options,
                                                              std::uint64_t& number) {
  detail::Descriptor descriptor = detail::describe(operation, options);
  number = session_->begin_call(*state_, descriptor);
  return transport_->start(std::move(operation), std::move(descriptor),
                           options.timeout ? *options.timeout : session_->timeout());
}

Handle Communicator::start(Operation operation, const CallOptions& options) {
  detail::check_operation(operation, transport_->group(), transport_->capabilities());
  std::uint64_t number = 0;
  try {
    std::shared_ptr<detail::PendingOperation> pending =
        begin(std::move(operation), options, number);
    if (pending) return Handle(std::move(pending), session_, number, 1);
  } catch (const std::exception& e) {
    session_->end_call(number, FlightState::kFailed);
    session_->dump(e.what(), true);
    throw;
  }
  session_->end_call(number, FlightState::kDone);
  return Handle();
}

Handle Communicator::start_broadcast(at::Tensor tensor, std::int64_t root, CallOptions options) {
  return start(collective::broadcast(std::move(tensor), root), options);
}

Handle Communicator::start_all_reduce(at::Tensor tensor, ReduceOp op, CallOptions options) {
  return start(collective::all_reduce(std::move(tensor), op), options);
}

Handle Communicator::start_reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op,
                                          std::vector<std::int64_t> counts, CallOptions options) {
  return start(collective::reduce_scatter(std::move(out), std::move(in), op, std::move(counts)),
               options);
}

Handle Communicator::start_all_gather(at::Tensor out, at::Tensor in,
                                      std::vector<std::int64_t> counts, CallOptions options) {
  return start(collective::all_gather(std::move(out), std::move(in), std::move(counts)), options);
}

Handle Communicator::start_all_to_all(at::Tensor out, at::Tensor in,
                                      std::vector<std::int64_t> send_counts,
                                      std::vector<std::int64_t> recv_counts, CallOptions options) {
  return start(collective::all_to_all(std::move(out), std::move(in), std::move(send_counts),
                                      std::move(recv_counts)),
               options);
}

Handle Communicator::start_send(at::Tensor tensor, std::int64_t to, std::int64_t tag,
                                CallOptions options) {
  return start(collective::send(std::move(tensor), to, tag), options);
}

Handle Communicator::start_recv(at::Tensor tensor, std::int64_t from, std::int64_t tag,
                                CallOptions options) {
  return start(collective::recv(std::move(tensor), from, tag), options);
}

Handle Communicator::start_batch(std::vector<Operation> operations, CallOptions options) {
  // All are checked before any starts: a call that is wrong in itself sends nothing.
  for (Operation& operation : operations) {
    detail::check_operation(operation, transport_->group(), transport_->capabilities());
  }
  std::vector<std::shared_ptr<detail::PendingOperation>> parts;
  std::uint64_t first = session_->recorder().num_calls();
  std::uint64_t number = first;
  try {
    for (Operation& operation : operations) {
      auto part = begin(std::move(operation), options, number);
      if (part) parts.push_back(std::move(part));
    }
  } catch (const std::exception& e) {
    session_->end_call(number, FlightState::kFailed);
    session_->dump(e.what(), true);
    throw;
  }
  return Handle(std::make_shared<BatchOperation>(std::move(parts)), session_, first,
                operations.size());
}

void Communicator::barrier(CallOptions options) { start(Operation{}, options).wait(); }

Communicator Communicator::make_group(const std::vector<std::int64_t>& ranks, AxisSet axis,
                                      Purpose purpose) {
  SX_CHECK(!ranks.empty() && std::is_sorted(ranks.begin(), ranks.end()) &&
               std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end(),
           "make_group: ranks are ascending and different");
  for (const std::int64_t rank : ranks) {
    SX_CHECK(std::binary_search(global_ranks().begin(), global_ranks().end(), rank),
             "make_group: rank {} is not in the communicator", rank);
  }
  const auto own = std::lower_bound(ranks.begin(), ranks.end(), global_rank());
  SX_CHECK(own != ranks.end() && *own == global_rank(), "make_group: rank {} is not a member",
           global_rank());
  return Communicator(
      transport_->make_group(
          {.global_ranks = ranks, .coord = own - ranks.begin(), .axis = axis, .purpose = purpose}),
      session_);
}

const std::vector<std::int64_t>& Communicator::global_ranks() const {
  return transport_->group().global_ranks;
}
std::int64_t Communicator::coord() const { return transport_->group().coord; }
std::int64_t Communicator::degree() const { return transport_->group().degree(); }
AxisSet Communicator::axis() const { return transport_->group().axis; }
Purpose Communicator::purpose() const { return transport_->group().purpose; }
const Capabilities& Communicator::capabilities() const { return transport_->capabilities(); }
void Communicator::abort(const std::string& reason) { transport_->abort(reason); }

}  // namespace sx
