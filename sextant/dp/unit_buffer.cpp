// Memory of one buffer and the way of its parameters: masters, shards, gathered. Gradients are in
// unit_buffer_grads.cpp.
#include "sextant/dp/unit_buffer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"
#include "sextant/tensor/storage.h"

namespace sx {
namespace {

std::int64_t size_of(c10::ScalarType dtype) {
  return static_cast<std::int64_t>(c10::elementSize(dtype));
}

}  // namespace

UnitBuffer::UnitBuffer(Setup setup, DataComms& comms, std::shared_ptr<Arena> arena)
    : setup_(std::move(setup)), comms_(comms), arena_(std::move(arena)) {
  const PresetRow& row = preset_row(policy().preset);
  params_sharded_ = shards_params(policy(), comms_.num_shards());
  optimizer_sharded_ = row.optimizer_sharded && trainable();
  over_replicas_ = policy().optimizer_over_replicas && optimizer_sharded_;
  offload_params_ = policy().offload_params && params_sharded_;
  offload_grads_ = policy().offload_grads && params_sharded_ && trainable();
  identity_ = policy().compat == LayoutCompat::kSextant;
  gathered_ = layout().gathered_numel();
  full_ = layout().zero_copy() ? gathered_ : layout().full_numel();
  const std::size_t n = parameters().size();
  has_value_.assign(n, false);
  taken_.assign(n, false);
  ever_taken_.assign(n, false);
  SX_CHECK(params_sharded_ || optimizer_sharded_ || layout().zero_copy(),
           "{}: nothing is cut, so nothing may be laid out by cuts", name());
  set_ranges();
  find_moves_and_gaps();
  allocate();
  make_owned();
}

UnitBuffer::~UnitBuffer() { abort(); }

CallOptions UnitBuffer::call(const char* what) const {
  return {.unit = fmt::format("{} {}", name(), what)};
}

std::int64_t UnitBuffer::gathered_bytes() const { return gathered_ * size_of(dtypes().param); }

std::int64_t UnitBuffer::reduce_bytes() const {
  return trainable() ? gathered_ * size_of(dtypes().reduce) : 0;
}

void UnitBuffer::set_ranges() {
  const std::int64_t num_shards = comms_.num_shards(), replicas = comms_.num_replicas();
  if (!params_sharded_ && !optimizer_sharded_) {
    // Replicated: a chunk only says which part of a nested reduction passes through this rank.
    const std::int64_t w = comms_.shard();
    chunk_.begin = w * gathered_ / num_shards;
    chunk_.numel = (w + 1) * gathered_ / num_shards - chunk_.begin;
    own_ = {0, gathered_};
    return;
  }
  const std::int64_t cuts = over_replicas_ ? replicas : 1;
  SX_CHECK(layout().num_shards() == num_shards * cuts, "{}: a layout for {} owners on {} x {}",
           name(), layout().num_shards(), num_shards, cuts);
  const std::int64_t shard = layout().shard_numel();
  chunk_ = {comms_.shard() * cuts * shard, cuts * shard};
  own_ = chunk_;
  if (over_replicas_) own_ = {chunk_.begin + comms_.replica() * shard, shard};
}

void UnitBuffer::allocate() {
  const BufferDtypes& t = dtypes();
  const auto make = [&](std::int64_t numel, c10::ScalarType dtype, MemoryClass purpose,
                        const char* what) {
    const bool offloaded = purpose == MemoryClass::kOptimizer ? offload_params_ : offload_grads_;
    const std::shared_ptr<Arena>& from =
        offloaded && purpose != MemoryClass::kParams ? setup_.store : arena_;
    Lease lease = from->acquire(numel, dtype, purpose, fmt::format("{} {}", name(), what));
    if (numel > 0) lease.view(dtype, 0, numel).zero_();
    return lease;
  };
  for (Parameter* parameter : parameters()) {
    SX_CHECK(!parameter->tensor.defined(), "{} already has memory: the engine gives it",
             parameter->fqn);
    parameter->tensor = make_detached(parameter->shape, t.param, parameter->fqn);
    if (c10::isFloatingType(t.param)) parameter->tensor.set_requires_grad(trainable());
  }
  if (!params_sharded_) {
    if (layout().zero_copy()) {
      wire_ = make(gathered_, t.param, MemoryClass::kParams, "parameters");
    } else {
      full_lease_ = make(full_, t.param, MemoryClass::kParams, "parameters");
    }
    attach_params();
    state_ = ShardedState::kGathered;
  }
  // Masters: the parameters themselves where dtype and place allow it.
  const bool same = t.main == t.param && identity_;
  if (same && !params_sharded_ && layout().zero_copy()) {
    master_ = wire_params().narrow(0, own_.begin, own_.numel);
  } else {
    std::int64_t numel = own_.numel;
    if (!identity_) {
      numel = 0;
      for (std::size_t i = 0; i < parameters().size(); ++i)
        numel += padded_numel(parameters()[i]->numel(), t.main);
    }
    master_lease_ = make(numel, t.main, MemoryClass::kOptimizer, "masters");
    master_ = master_lease_.view(t.main, 0, numel);
    if (params_sharded_ && same && !over_replicas_ && !offload_params_) chunk_params_ = master_;
  }
  if (params_sharded_ && over_replicas_) {
    chunk_lease_ = make(chunk_.numel, t.param, MemoryClass::kParams, "shard");
    chunk_params_ = chunk_lease_.view(t.param, 0, chunk_.numel);
  }
  if (!trainable()) return;
  local_persistent_ =
      !params_sharded_ && accumulation(policy(), comms_.num_shards()) == Accumulate::kLocal;
  in_place_ = local_persistent_ && layout().zero_copy();
  if (local_persistent_) local_lease_ = make(full_, t.main, MemoryClass::kGrads, "gradients");
  const Range result = optimizer_sharded_ ? chunk_ : Range{0, gathered_};
  if (in_place_) {
    result_ = local_flat().narrow(0, result.begin, result.numel);
  } else {
    result_lease_ = make(result.numel, t.main, MemoryClass::kGrads, "gradient shard");
    result_ = result_lease_.view(t.main, 0, result.numel);
  }
}

void UnitBuffer::make_owned() {
  // Which coordinate of the layout this rank owns; replicated: all of them.
  std::vector<Segment> segments;
  if (optimizer_sharded_ || params_sharded_) {
    const std::int64_t coord =
        over_replicas_ ? comms_.shard() * comms_.num_replicas() + comms_.replica() : comms_.shard();
    segments = layout().segments(coord);
  }
  const Range result = optimizer_sharded_ ? chunk_ : Range{0, gathered_};
  std::int64_t packed = 0;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    Parameter* parameter = parameters()[i];
    OwnedPart part{.parameter = parameter};
    std::int64_t at = own_.begin;  // in the gathered buffer
    if (!optimizer_sharded_ && !params_sharded_) {
      part.end = parameter->numel();
      at = layout().param_offset(i);
    } else {
      for (const Segment& segment : segments) {
        if (segment.param != i) continue;
        SX_CHECK(part.end == part.begin, "{}: two parts of {} on one rank", name(), parameter->fqn);
        part.begin = segment.begin;
        part.end = segment.end;
        at = segment.gathered_offset;
      }
    }
    const std::int64_t count = part.end - part.begin;
    const std::int64_t padded = padded_numel(count, dtypes().main);
    const std::int64_t offset = at - own_.begin;
    part.master = identity_ ? master_.narrow(0, count == 0 ? 0 : offset, padded)
                            : master_.narrow(0, packed, padded);
    packed += padded;
    if (trainable()) {
      part.grad = result_.narrow(0, count == 0 ? 0 : at - result.begin, count);
    }
    if (!over_replicas_) {
      const bool sharded = optimizer_sharded_ || params_sharded_;
      part.copy =
          sharded ? comms_.replica() : comms_.replica() * comms_.num_shards() + comms_.shard();
      part.copies = comms_.num_replicas() * (sharded ? 1 : comms_.num_shards());
    }
    part.writer = part.copy == 0;
    part_offset_.push_back(count == 0 ? own_.begin : at);
    own_offset_.push_back(offset);
    owned_.push_back(std::move(part));
  }
}

at::Tensor UnitBuffer::wire_params() const { return wire_.view(dtypes().param, 0, gathered_); }

at::Tensor UnitBuffer::full_params() const {
  return layout().zero_copy() ? wire_params() : full_lease_.view(dtypes().param, 0, full_);
}

void UnitBuffer::attach_params() {
  const at::Tensor full = full_params();
  auto* base = static_cast<std::byte*>(full.mutable_data_ptr());
  const std::int64_t item = size_of(dtypes().param);
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& parameter = *parameters()[i];
    attach(parameter.tensor,
           parameter.numel() == 0 ? nullptr : base + layout().param_offset(i) * item,
           parameter.numel() * item);
  }
}

void UnitBuffer::detach_params() {
  for (const Parameter* parameter : parameters()) detach_memory(parameter->tensor, parameter->fqn);
}

void UnitBuffer::find_moves_and_gaps() {
  using Used = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto gaps = [](Used used, std::int64_t numel) {
    std::sort(used.begin(), used.end());
    std::vector<Range> between;
    std::int64_t at = 0;
    used.emplace_back(numel, numel);
    for (const auto& [begin, end] : used) {
      if (at < begin) between.push_back({at, begin - at});
      at = std::max(at, end);
    }
    return between;
  };
  Used full, gathered;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const std::int64_t begin = layout().param_offset(i);
    full.emplace_back(begin, begin + parameters()[i]->numel());
  }
  gaps_full_ = gaps(full, full_);
  if (layout().zero_copy()) {
    gaps_gathered_ = gaps_full_;
    return;
  }
  for (std::int64_t c = 0; c < layout().num_shards(); ++c) {
    for (const Segment& s : layout().segments(c)) {
      if (s.size() == 0) continue;
      gathered.emplace_back(s.gathered_offset, s.gathered_offset + s.size());
      moves_.push_back({layout().param_offset(s.param) + s.begin, s.gathered_offset, s.size()});
    }
  }
  gaps_gathered_ = gaps(gathered, gathered_);
}

/// Zeroes the elements of [within) that belong to no parameter; `flat` begins at within.begin.
void UnitBuffer::zero_gaps(const at::Tensor& flat, bool gathered, Range within) const {
  if (flat.numel() == 0) return;
  const std::int64_t item = size_of(flat.scalar_type());
  auto* base = static_cast<std::byte*>(flat.mutable_data_ptr());
  for (const Range& gap : gathered ? gaps_gathered_ : gaps_full_) {
    const std::int64_t begin = std::max(gap.begin, within.begin);
    const std::int64_t end = std::min(gap.end(), within.end());
    if (begin < end) {
      std::memset(base + (begin - within.begin) * item, 0,
                  static_cast<std::size_t>((end - begin) * item));
    }
  }
}

void UnitBuffer::copy_in_masters() {
  const at::Tensor wire = wire_params();
  zero_gaps(wire.narrow(0, own_.begin, own_.numel), true, own_);
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    const std::int64_t count = owned_[i].end - owned_[i].begin;
    if (count == 0) continue;
    wire.narrow(0, part_offset_[i], count).copy_(owned_[i].master.narrow(0, 0, count));
  }
}

void UnitBuffer::copy_out(const at::Tensor& gathered, const at::Tensor& full) const {
  const std::int64_t item = size_of(dtypes().param);
  const auto* from = static_cast<const std::byte*>(gathered.const_data_ptr());
  auto* to = static_cast<std::byte*>(full.mutable_data_ptr());
  for (const Move& move : moves_) {
    std::memcpy(to + move.full * item, from + move.gathered * item,
                static_cast<std::size_t>(move.numel * item));
  }
  zero_gaps(full, false, {0, full_});
}

void UnitBuffer::publish() {
  const at::NoGradGuard no_grad;
  wait_params();
  if (params_sharded_) {
    SX_CHECK(state_ == ShardedState::kSharded, "{}: parameters change while {}", name(),
             to_string(state_));
    kept_shard_.reset();
    kept_ways_ = 0;
    if (fetched_) setup_.offload->wait(fetch_);
    fetched_.reset();             // the values of before
    if (!over_replicas_) return;  // masters are the shards
    const std::int64_t at = own_.begin - chunk_.begin;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      const std::int64_t count = owned_[i].end - owned_[i].begin;
      if (count == 0) continue;
      chunk_params_.narrow(0, at + own_offset_[i], count)
          .copy_(owned_[i].master.narrow(0, 0, count));
    }
    publish_handle_ = comms_.replicate().start_all_gather(
        chunk_params_, chunk_params_.narrow(0, at, own_.numel), {}, call("parameters"));
    publishing_ = true;
    return;
  }
  const bool aliased = !master_lease_;
  if (!optimizer_sharded_) {
    if (aliased) return;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      const std::int64_t count = parameters()[i]->numel();
      full_params()
          .narrow(0, layout().param_offset(i), count)
          .copy_(owned_[i].master.narrow(0, 0, count));
    }
    return;
  }
  if (!layout().zero_copy()) {
    wire_ = arena_->acquire(gathered_, dtypes().param, MemoryClass::kTransient,
                            name() + " parameters", MemoryCategory::kGathered);
  }
  if (!aliased) copy_in_masters();
  at::Tensor wire = wire_params();
  if (over_replicas_ && comms_.num_replicas() > 1) {
    comms_.replicate()
        .start_all_gather(wire.narrow(0, chunk_.begin, chunk_.numel),
                          wire.narrow(0, own_.begin, own_.numel), {}, call("parameters"))
        .wait();
  }
  publish_handle_ = comms_.gather().start_all_gather(
      wire, wire.narrow(0, chunk_.begin, chunk_.numel), {}, call("parameters"));
  publishing_ = true;
}

void UnitBuffer::wait_params() {
  if (!publishing_) return;
  publishing_ = false;
  publish_handle_.wait();
  if (params_sharded_ || layout().zero_copy()) return;
  const at::NoGradGuard no_grad;
  copy_out(wire_params(), full_params());
  wire_.reset();
}

void UnitBuffer::start_gather() {
  if (!params_sharded_ || is_gathered(state_) || is_gathering(state_)) return;
  const at::NoGradGuard no_grad;
  wait_params();
  state_ = after(state_, ShardedEvent::kStartGather, name());
  if (kept_shard_) return start_gather_from_neighbours();
  wire_ = arena_->acquire(gathered_, dtypes().param, MemoryClass::kTransient, name() + " gathered",
                          MemoryCategory::kGathered);
  const at::Tensor wire = wire_params();
  at::Tensor shard = chunk_params_;
  if (offload_params_) {
    start_fetch();
    setup_.offload->wait(fetch_);
    shard = fetched_.view(dtypes().param, 0, chunk_.numel);
  } else if (!shard.defined()) {
    copy_in_masters();
    shard = wire.narrow(0, chunk_.begin, chunk_.numel);
  }
  gather_handle_ = comms_.gather().start_all_gather(wire, shard, {}, call("parameters"));
}

void UnitBuffer::start_fetch() {
  if (!offload_params_ || fetched_ || kept_shard_ || is_gathered(state_) || chunk_.numel == 0)
    return;
  fetched_ = arena_->acquire(chunk_.numel, dtypes().param, MemoryClass::kTransient,
                             name() + " fetched shard");
  fetch_ = setup_.offload->start_copy(fetched_.view(dtypes().param, 0, chunk_.numel), master_);
}

void UnitBuffer::wait_gather() {
  if (!params_sharded_) return wait_params();
  if (is_gathered(state_)) return;
  const at::NoGradGuard no_grad;
  state_ = after(state_, ShardedEvent::kWaitGather, name());
  gather_handle_.wait();
  fetched_.reset();
  if (!layout().zero_copy() && wire_) {
    full_lease_ = arena_->acquire(full_, dtypes().param, MemoryClass::kTransient,
                                  name() + " unsharded", MemoryCategory::kGathered);
    copy_out(wire_params(), full_params());
    wire_.reset();
  }
  kept_shard_.reset();
  attach_params();
}

/// The slices of the full buffer that the neighbours keep between forward and backward.
namespace {
std::vector<std::int64_t> slices(std::int64_t numel, std::int64_t ways) {
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < ways; ++i)
    counts.push_back((i + 1) * numel / ways - i * numel / ways);
  return counts;
}
}  // namespace

void UnitBuffer::release(std::int64_t keep_ways) {
  if (!params_sharded_ || !is_gathered(state_)) return;
  state_ = after(state_, ShardedEvent::kRelease, name());
  if (keep_ways > 1) {
    const at::NoGradGuard no_grad;
    const std::int64_t place = comms_.shard() % keep_ways;
    const std::int64_t begin = place * full_ / keep_ways;
    const std::int64_t count = slices(full_, keep_ways)[static_cast<std::size_t>(place)];
    kept_shard_ = arena_->acquire(count, dtypes().param, MemoryClass::kTransient,
                                  name() + " kept shard", MemoryCategory::kGathered);
    kept_shard_.view(dtypes().param, 0, count).copy_(full_params().narrow(0, begin, count));
    kept_ways_ = keep_ways;
  }
  detach_params();
  wire_.reset();
  full_lease_.reset();
}

void UnitBuffer::start_gather_from_neighbours() {
  Lease& lease = layout().zero_copy() ? wire_ : full_lease_;
  lease = arena_->acquire(full_, dtypes().param, MemoryClass::kTransient, name() + " gathered",
                          MemoryCategory::kGathered);
  const std::vector<std::int64_t> counts = slices(full_, kept_ways_);
  const std::int64_t own = counts[static_cast<std::size_t>(comms_.shard() % kept_ways_)];
  gather_handle_ = comms_.neighbours(kept_ways_)
                       .start_all_gather(lease.view(dtypes().param, 0, full_),
                                         kept_shard_.view(dtypes().param, 0, own), counts,
                                         call("kept parameters"));
}

void UnitBuffer::abort() noexcept {
  const auto drain = [](Handle& handle) {
    try {
      handle.wait();
    } catch (...) {  // the world is lost; whoever called abort knows why
    }
    handle = Handle();
  };
  drain(gather_handle_);
  drain(publish_handle_);
  drain(reduce_handle_);
  drain(replicate_handle_);
  if (setup_.offload != nullptr) {
    setup_.offload->wait(fetch_);
    setup_.offload->wait(stage_);
  }
  fetched_.reset();
  staged_.reset();
  publishing_ = replicating_ = received_ = reduced_once_ = false;
  if (params_sharded_) {
    if (is_gathered(state_)) detach_params();
    wire_.reset();
    full_lease_.reset();
    kept_shard_.reset();
    kept_ways_ = 0;
    state_ = ShardedState::kSharded;
  } else {
    if (!layout().zero_copy()) wire_.reset();
    state_ = ShardedState::kGathered;
  }
  for (Lease* lease : {&grad_wire_, &receive_, &send_, &replicate_lease_}) lease->reset();
  if (!local_persistent_) local_lease_.reset();
  wire_grads_ = at::Tensor();
  std::fill(has_value_.begin(), has_value_.end(), false);
  std::fill(taken_.begin(), taken_.end(), false);
  std::fill(ever_taken_.begin(), ever_taken_.end(), false);
}

/// Sum over ranks of one element from its owner and zeros: every element has one owner per
/// replica; replicas hold equal values and only the first ones count.
at::Tensor UnitBuffer::assemble(const std::vector<at::Tensor>& parts, std::size_t i) {
  const at::NoGradGuard no_grad;
  const OwnedPart& part = owned_[i];
  at::Tensor whole = at::zeros({parameters()[i]->numel()}, parts[i].options());
  const std::int64_t count = part.end - part.begin;
  if (part.writer && count > 0) {
    whole.narrow(0, part.begin, count).copy_(parts[i].narrow(0, 0, count));
  }
  comms_.all().start_all_reduce(whole, ReduceOp::kSum, call("assembled")).wait();
  return whole.view(parameters()[i]->shape);
}

at::Tensor UnitBuffer::whole_master(std::size_t i) {
  std::vector<at::Tensor> parts;
  for (const OwnedPart& part : owned_) parts.push_back(part.master);
  return assemble(parts, i);
}

at::Tensor UnitBuffer::whole_grad(std::size_t i) {
  std::vector<at::Tensor> parts;
  for (const OwnedPart& part : owned_) parts.push_back(part.grad);
  return assemble(parts, i);
}

}  // namespace sx
