// The way of a buffer's gradients: taken from backward, summed over microbatches, packed for the
// wire, summed over the shard axis, added to the shard, summed over replicas.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sextant/base/check.h"
#include "sextant/dp/unit_buffer.h"
#include "sextant/nn/grad_hooks.h"

namespace sx {

void UnitBuffer::begin_step() {
  SX_CHECK(!is_reducing(state_) && !replicating_, "{}: a step begins while gradients are reduced",
           name());
  std::fill(has_value_.begin(), has_value_.end(), false);
  std::fill(ever_taken_.begin(), ever_taken_.end(), false);
  if (!local_persistent_) local_lease_.reset();
  reduced_once_ = false;
  last_ = false;
}

void UnitBuffer::begin_microbatch() { std::fill(taken_.begin(), taken_.end(), false); }

at::Tensor UnitBuffer::local_flat() const { return local_lease_.view(dtypes().main, 0, full_); }

at::Tensor UnitBuffer::local_grad(std::size_t i) const {
  return local_lease_.view(dtypes().main, layout().param_offset(i), parameters()[i]->numel())
      .view(parameters()[i]->shape);
}

void UnitBuffer::need_local() {
  if (local_lease_) return;
  local_lease_ = arena_->acquire(full_, dtypes().main, MemoryClass::kGrads, name() + " gradients",
                                 MemoryCategory::kGradUnsharded);
  zero_gaps(local_flat(), false, {0, full_});
}

void UnitBuffer::take(std::size_t i, const at::Tensor& fresh) {
  if (full_ == 0) return;
  const at::NoGradGuard no_grad;
  need_local();
  add_gradient(local_grad(i), fresh, !has_value_[i]);
  has_value_[i] = true;
  taken_[i] = true;
  if (fresh.defined()) ever_taken_[i] = true;
}

void UnitBuffer::fill_unused() {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (!taken_[i]) take(i, {});
  }
}

bool UnitBuffer::has_local() const {
  return std::find(has_value_.begin(), has_value_.end(), true) != has_value_.end();
}

/// Parameters' gradients to their places in the gathered order, cast to the wire's dtype.
void UnitBuffer::pack_wire(const at::Tensor& wire) const {
  const at::Tensor local = local_flat();
  if (layout().zero_copy()) {
    wire.copy_(local);
    return;
  }
  zero_gaps(wire, true, {0, gathered_});
  if (wire.scalar_type() != local.scalar_type()) {
    for (const Move& move : moves_) {
      wire.narrow(0, move.gathered, move.numel).copy_(local.narrow(0, move.full, move.numel));
    }
    return;
  }
  const auto item = static_cast<std::int64_t>(wire.element_size());
  const auto* from = static_cast<const std::byte*>(local.const_data_ptr());
  auto* to = static_cast<std::byte*>(wire.mutable_data_ptr());
  for (const Move& move : moves_) {
    std::memcpy(to + move.gathered * item, from + move.full * item,
                static_cast<std::size_t>(move.numel * item));
  }
}

std::vector<std::int64_t> UnitBuffer::chunk_counts() const {
  const std::int64_t num_shards = comms_.num_shards();
  if (gathered_ % num_shards == 0) return {};
  std::vector<std::int64_t> counts;
  for (std::int64_t w = 0; w < num_shards; ++w)
    counts.push_back((w + 1) * gathered_ / num_shards - w * gathered_ / num_shards);
  return counts;
}

void UnitBuffer::start_reduce(bool last) {
  const at::NoGradGuard no_grad;
  // A unit that did not run has nothing gathered; zeros are reduced without a change of state.
  stateless_reduce_ = state_ == ShardedState::kSharded;
  if (!stateless_reduce_) state_ = after(state_, ShardedEvent::kStartReduce, name());
  last_ = last;
  const BufferDtypes& t = dtypes();
  if (offload_grads_) {
    wait_store();
    staged_ = arena_->acquire(chunk_.numel, t.main, MemoryClass::kTransient,
                              name() + " staged gradients");
    if (reduced_once_) stage_ = setup_.offload->start_copy(sum_chunk(), result_);
  }
  if (layout().zero_copy() && t.reduce == t.main) {
    wire_grads_ = full_ == 0 ? at::empty({0}, t.main) : local_flat();
  } else {
    grad_wire_ = arena_->acquire(gathered_, t.reduce, MemoryClass::kTransient,
                                 name() + " reduced gradients");
    wire_grads_ = grad_wire_.view(t.reduce, 0, gathered_);
    pack_wire(wire_grads_);
    if (!local_persistent_) local_lease_.reset();
  }
  if (policy().grad_scale == GradScale::kMean) wire_grads_.mul_(1.0 / mean_factors().before);
  start_shard_stage(wire_grads_);
}

/// Of the mean over all ranks: fp16 is divided in two parts, so that neither terms nor sum leave
/// its range.
MeanFactors UnitBuffer::mean_factors() const {
  const std::int64_t ranks = comms_.num_replicas() * comms_.num_shards();
  if (dtypes().reduce == c10::kHalf) return fp16_mean_factors(ranks);
  return {.before = static_cast<double>(ranks)};
}

void UnitBuffer::start_shard_stage(const at::Tensor& wire) {
  const std::int64_t shards = comms_.num_shards(), replicas = comms_.num_replicas();
  const bool flat = policy().order == FoldOrder::kFlat && replicas > 1;
  const bool ordered = policy().wire == ReduceWire::kA2aFp32 && shards > 1 && optimizer_sharded_ &&
                       c10::elementSize(wire.scalar_type()) == 2;
  received_ = false;
  if (flat && (!optimizer_sharded_ || shards == 1)) {
    reduce_handle_ = comms_.all().start_all_reduce(wire, ReduceOp::kSum, call("gradients"));
  } else if (flat || ordered) {
    // Every rank gets its chunk from every rank and folds by itself.
    Communicator& comm = flat ? comms_.all() : comms_.reduce();
    const std::int64_t copies = flat ? replicas : 1;
    at::Tensor send = wire;
    if (copies > 1) {
      send_ = arena_->acquire(copies * gathered_, wire.scalar_type(), MemoryClass::kTransient,
                              name() + " sent gradients");
      send = send_.view(wire.scalar_type(), 0, copies * gathered_);
      for (std::int64_t r = 0; r < copies; ++r)
        send.narrow(0, r * gathered_, gathered_).copy_(wire);
    }
    const std::int64_t numel = copies * shards * chunk_.numel;
    receive_ = arena_->acquire(numel, wire.scalar_type(), MemoryClass::kTransient,
                               name() + " received gradients");
    reduce_handle_ = comm.start_all_to_all(receive_.view(wire.scalar_type(), 0, numel), send, {},
                                           {}, call("gradients"));
    received_ = true;
  } else if (shards == 1) {
    reduce_handle_ = Handle();  // all on the replicate axis
  } else if (!optimizer_sharded_ && replicas == 1) {
    reduce_handle_ = comms_.reduce().start_all_reduce(wire, ReduceOp::kSum, call("gradients"));
  } else {
    reduce_handle_ =
        comms_.reduce().start_reduce_scatter(wire.narrow(0, chunk_.begin, chunk_.numel), wire,
                                             ReduceOp::kSum, chunk_counts(), call("gradients"));
  }
}

/// The left fold over ranks in ascending order; 16-bit terms in fp32 with one rounding at the end.
void UnitBuffer::fold_received() {
  const c10::ScalarType dtype = wire_grads_.scalar_type();
  const at::Tensor chunk = wire_grads_.narrow(0, chunk_.begin, chunk_.numel);
  const std::int64_t n = chunk_.numel;
  if (n == 0) return;
  const std::int64_t ranks =
      (policy().order == FoldOrder::kFlat ? comms_.num_replicas() : 1) * comms_.num_shards();
  const at::Tensor all = receive_.view(dtype, 0, ranks * n);
  const bool narrow = c10::elementSize(dtype) == 2;
  at::Tensor sum = narrow ? all.narrow(0, 0, n).to(c10::kFloat) : chunk;
  if (!narrow) sum.copy_(all.narrow(0, 0, n));
  for (std::int64_t r = 1; r < ranks; ++r) sum.add_(all.narrow(0, r * n, n));
  if (narrow) chunk.copy_(sum);
}

at::Tensor UnitBuffer::result_chunk() const {
  return optimizer_sharded_ ? result_ : result_.narrow(0, chunk_.begin, chunk_.numel);
}

at::Tensor UnitBuffer::sum_chunk() const {
  return offload_grads_ ? staged_.view(dtypes().main, 0, chunk_.numel) : result_chunk();
}

void UnitBuffer::start_store() { stage_ = setup_.offload->start_copy(result_, sum_chunk()); }

void UnitBuffer::wait_store() {
  if (!offload_grads_ || !staged_) return;
  setup_.offload->wait(stage_);
  staged_.reset();
}

/// Adds what the reduction gave to the sum of earlier microbatches.
void UnitBuffer::add_result() {
  const std::int64_t replicas = comms_.num_replicas();
  // Which part of the wire is complete: everything, or this rank's chunk.
  const bool everything = !optimizer_sharded_ && (comms_.num_shards() == 1 || replicas == 1 ||
                                                  policy().order == FoldOrder::kFlat);
  at::Tensor from = everything ? wire_grads_ : wire_grads_.narrow(0, chunk_.begin, chunk_.numel);
  if (policy().grad_scale == GradScale::kMean && mean_factors().after != 1.0) {
    from = from.to(dtypes().main).div_(mean_factors().after);
  }
  if (offload_grads_) setup_.offload->wait(stage_);  // the sum so far
  const at::Tensor to = everything ? result_ : sum_chunk();
  if (from.numel() > 0 && from.const_data_ptr() != to.const_data_ptr()) {
    add_gradient(to, from, !reduced_once_);
  }
  reduced_once_ = true;
}

void UnitBuffer::finish_reduce() {
  const at::NoGradGuard no_grad;
  reduce_handle_.wait();
  if (received_) fold_received();
  received_ = false;
  add_result();
  wire_grads_ = at::Tensor();
  for (Lease* lease : {&grad_wire_, &receive_, &send_}) lease->reset();
  if (!local_persistent_) local_lease_.reset();
  std::fill(has_value_.begin(), has_value_.end(), false);
  if (!stateless_reduce_) state_ = after(state_, ShardedEvent::kWaitReduce, name());
  const bool flat = policy().order == FoldOrder::kFlat;
  if (last_ && comms_.num_replicas() > 1 && !flat) {
    start_replicate();
  } else if (offload_grads_) {
    start_store();
  }
}

void UnitBuffer::start_replicate() {
  const at::Tensor chunk = sum_chunk();
  at::Tensor wire = chunk;
  if (dtypes().reduce != dtypes().main) {
    replicate_lease_ = arena_->acquire(chunk.numel(), dtypes().reduce, MemoryClass::kTransient,
                                       name() + " replicated gradients");
    wire = replicate_lease_.view(dtypes().reduce, 0, chunk.numel());
    wire.copy_(chunk);
  }
  if (over_replicas_) {
    replicate_handle_ = comms_.replicate().start_reduce_scatter(
        wire.narrow(0, own_.begin - chunk_.begin, own_.numel), wire, ReduceOp::kSum, {},
        call("gradients"));
  } else {
    replicate_handle_ =
        comms_.replicate().start_all_reduce(wire, ReduceOp::kSum, call("gradients"));
  }
  replicating_ = true;
}

void UnitBuffer::finish_replicate() {
  if (!replicating_) return;
  const at::NoGradGuard no_grad;
  replicating_ = false;
  replicate_handle_.wait();
  if (replicate_lease_) {
    const at::Tensor chunk = sum_chunk();
    const std::int64_t at = over_replicas_ ? own_.begin - chunk_.begin : 0;
    const std::int64_t n = over_replicas_ ? own_.numel : chunk.numel();
    chunk.narrow(0, at, n).copy_(replicate_lease_.view(dtypes().reduce, at, n));
    replicate_lease_.reset();
  }
  if (offload_grads_) start_store();
  if (!optimizer_sharded_ && comms_.num_shards() > 1) {
    comms_.gather()
        .start_all_gather(result_, result_chunk(), chunk_counts(), call("gradients"))
        .wait();
  }
}

void UnitBuffer::add_squares(ExactSum& sum) const {
  if (!trainable()) return;
  // Ranks that hold the same range answer for a part each.
  std::int64_t holders = over_replicas_ ? 1 : comms_.num_replicas();
  std::int64_t place = over_replicas_ ? 0 : comms_.replica();
  if (!optimizer_sharded_) {
    holders *= comms_.num_shards();
    place = comms_.replica() * comms_.num_shards() + comms_.shard();
  }
  const std::int64_t base = optimizer_sharded_ ? own_.begin - chunk_.begin : 0;
  const std::int64_t from = place * own_.numel / holders, to = (place + 1) * own_.numel / holders;
  if (from < to) sum.add_squares(result_.narrow(0, base + from, to - from));
}

void UnitBuffer::scale_grads(double factor) {
  const at::NoGradGuard no_grad;
  const std::int64_t base = optimizer_sharded_ ? own_.begin - chunk_.begin : 0;
  if (trainable() && own_.numel > 0) result_.narrow(0, base, own_.numel).mul_(factor);
}

}  // namespace sx
