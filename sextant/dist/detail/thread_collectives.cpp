// Collectives by pulling: each rank reads what it needs straight from the peers' buffers once they
// have published the call. Nobody writes into another rank's memory.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sextant/dist/detail/fold.h"
#include "sextant/dist/detail/thread_group.h"

namespace sx::detail {
namespace {

std::int64_t prefix(const std::vector<std::int64_t>& counts, std::int64_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + coord, std::int64_t{0});
}

}  // namespace

CollectiveOperation::CollectiveOperation(std::shared_ptr<ThreadMember> member, Operation operation,
                                         Descriptor descriptor, Seconds timeout)
    : ThreadOperation(member->rank(), member->info(), std::move(descriptor), timeout),
      member_(std::move(member)),
      operation_(std::move(operation)),
      own_(std::make_shared<Published>()),
      peers_(static_cast<std::size_t>(group().degree())),
      pulled_(static_cast<std::size_t>(group().degree()), false) {
  const std::int64_t coord = group().coord;
  own_->descriptor = this->descriptor();
  if (operation_.in.defined()) {
    element_bytes_ = operation_.in.element_size();
    own_->in = static_cast<const std::byte*>(operation_.in.const_data_ptr());
    own_->in_owner = operation_.in;
  }
  if (operation_.out.defined() && operation_.op == Collective::kAllReduce) {
    own_->out = static_cast<std::byte*>(operation_.out.mutable_data_ptr());
  }
  own_->out_owner = operation_.out;
  const bool gives_input = operation_.op != Collective::kBarrier &&
                           (operation_.op != Collective::kBroadcast || operation_.peer == coord);
  const std::int64_t bytes = gives_input ? static_cast<std::int64_t>(operation_.in.nbytes()) : 0;
  if (bytes > 0 && bytes <= kStagedBytes) {
    own_->staged.assign(own_->in, own_->in + bytes);
    own_->in = own_->staged.data();
  }
  peers_[static_cast<std::size_t>(coord)] = own_;
  num_arrived_ = 1;
}

void CollectiveOperation::arrive(std::int64_t from, std::shared_ptr<Published> call) {
  if (!agree(descriptor(), group().coord, call->descriptor, from)) {
    const bool earlier = call->descriptor.history != descriptor().history &&
                         call->descriptor.to_string() == descriptor().to_string();
    rank().fail(*this, DistFault::kMismatch,
                fmt::format("rank {} calls {}, rank {} calls {}{}", member_->rank().global_rank(),
                            descriptor().to_string(), member_->rank_of(from).global_rank(),
                            call->descriptor.to_string(),
                            earlier ? " (an earlier call on this communicator differed)" : ""));
  }
  peers_[static_cast<std::size_t>(from)] = std::move(call);
  ++num_arrived_;
}

std::vector<std::int64_t> CollectiveOperation::missing_ranks() const {
  std::vector<std::int64_t> missing;
  for (std::size_t coord = 0; coord < peers_.size(); ++coord) {
    if (!peers_[coord]) missing.push_back(group().global_ranks[coord]);
  }
  return missing;
}

bool CollectiveOperation::advance() {
  member_->deliver();
  if (!advance_by_kind()) return false;
  // Nobody reads from this rank's buffers any more: let go of them and of the peers' calls.
  member_->close(*this);
  own_->in_owner = at::Tensor();
  own_->out_owner = at::Tensor();
  operation_.in = at::Tensor();
  operation_.out = at::Tensor();
  peers_.clear();
  return true;
}

bool CollectiveOperation::advance_by_kind() {
  switch (operation_.op) {
    case Collective::kBarrier: return all_arrived();
    case Collective::kBroadcast: return advance_broadcast();
    case Collective::kAllReduce: return advance_all_reduce();
    case Collective::kReduceScatter: return advance_reduce_scatter();
    default: return advance_pulls();
  }
}

/// Whether the owner may reuse its input: it was copied at the start, or every peer has read its
/// part.
bool CollectiveOperation::input_is_free() const {
  return own_->is_staged() || own_->taken.load(std::memory_order_acquire) == group().degree() - 1;
}

void CollectiveOperation::mark_taken(std::int64_t coord) {
  Published& peer = *peers_[static_cast<std::size_t>(coord)];
  if (coord == group().coord || peer.is_staged()) return;
  if (peer.taken.fetch_add(1, std::memory_order_acq_rel) + 1 == group().degree() - 1) {
    member_->rank_of(coord).parker().notify();
  }
}

void CollectiveOperation::copy_from(std::int64_t coord, const std::byte* source, std::int64_t begin,
                                    std::int64_t numel) {
  auto* target =
      static_cast<std::byte*>(operation_.out.mutable_data_ptr()) + begin * element_bytes_;
  if (numel > 0 && target != source) {
    std::memcpy(target, source, static_cast<std::size_t>(numel * element_bytes_));
  }
  pulled_[static_cast<std::size_t>(coord)] = true;
  ++num_pulled_;
}

/// out = fold of every rank's input elements [begin, end).
void CollectiveOperation::fold_range(std::int64_t begin, std::int64_t end, std::byte* out) {
  std::vector<const std::byte*> inputs;
  inputs.reserve(peers_.size());
  for (const auto& peer : peers_) inputs.push_back(peer->in + begin * element_bytes_);
  if (end > begin) fold(descriptor().dtype, operation_.reduce, inputs, out, end - begin);
}

bool CollectiveOperation::advance_broadcast() {
  const std::int64_t root = operation_.peer;
  const auto& source = peers_[static_cast<std::size_t>(root)];
  if (root != group().coord && source && num_pulled_ == 0) {
    copy_from(root, source->in, 0, descriptor().numel);
    mark_taken(root);
  }
  if (!all_arrived()) return false;
  return root != group().coord || descriptor().numel == 0 || input_is_free();
}

bool CollectiveOperation::advance_reduce_scatter() {
  if (!folded_) {
    if (!all_arrived()) return false;
    const std::int64_t coord = group().coord;
    const std::int64_t begin = prefix(operation_.send_counts, coord);
    fold_range(begin, begin + operation_.send_counts[static_cast<std::size_t>(coord)],
               static_cast<std::byte*>(operation_.out.mutable_data_ptr()));
    folded_ = true;
    for (std::int64_t peer = 0; peer < group().degree(); ++peer) mark_taken(peer);
  }
  return input_is_free();
}

/// Elements that `coord` reduces for all in a large all_reduce. Any split gives the same bits.
std::pair<std::int64_t, std::int64_t> CollectiveOperation::reduce_slice(std::int64_t coord) const {
  const std::int64_t degree = group().degree();
  const std::int64_t numel = descriptor().numel;
  const std::int64_t per_rank = ((numel + degree - 1) / degree + 63) / 64 * 64;
  return {std::min(numel, coord * per_rank), std::min(numel, (coord + 1) * per_rank)};
}

bool CollectiveOperation::advance_all_reduce() {
  if (!all_arrived()) return false;
  const std::int64_t coord = group().coord;
  auto* out = static_cast<std::byte*>(operation_.out.mutable_data_ptr());
  if (own_->is_staged() || descriptor().numel == 0) {  // small: everybody folds everything
    fold_range(0, descriptor().numel, out);
    return true;
  }
  // Large: this rank folds its slice in place. Only it reads that slice of anybody's input, so
  // writing it is safe; and a peer that says "reduced" has read its slice of our input, so pulling
  // the result over it is safe too.
  if (!folded_) {
    const auto [begin, end] = reduce_slice(coord);
    fold_range(begin, end, out + begin * element_bytes_);
    folded_ = true;
    pulled_[static_cast<std::size_t>(coord)] = true;
    ++num_pulled_;
    own_->reduced.store(true, std::memory_order_release);
    member_->notify_others();
  }
  for (std::int64_t peer = 0; peer < group().degree(); ++peer) {
    const Published& call = *peers_[static_cast<std::size_t>(peer)];
    if (pulled_[static_cast<std::size_t>(peer)] || !call.reduced.load(std::memory_order_acquire))
      continue;
    const auto [begin, end] = reduce_slice(peer);
    copy_from(peer, call.out + begin * element_bytes_, begin, end - begin);
    mark_taken(peer);
  }
  return num_pulled_ == group().degree() && input_is_free();
}

/// all_gather and all_to_all: one piece from every rank.
bool CollectiveOperation::advance_pulls() {
  const std::int64_t coord = group().coord;
  for (std::int64_t peer = 0; peer < group().degree(); ++peer) {
    const auto& call = peers_[static_cast<std::size_t>(peer)];
    if (!call || pulled_[static_cast<std::size_t>(peer)]) continue;
    const std::int64_t begin = prefix(operation_.recv_counts, peer);
    const std::int64_t numel = operation_.recv_counts[static_cast<std::size_t>(peer)];
    const std::int64_t source_begin =
        operation_.op == Collective::kAllToAll ? prefix(call->descriptor.send_counts, coord) : 0;
    copy_from(peer, call->in + source_begin * element_bytes_, begin, numel);
    mark_taken(peer);
  }
  return num_pulled_ == group().degree() && input_is_free();
}

}  // namespace sx::detail
