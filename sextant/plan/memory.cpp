// The engine's step in terms of blocks: the same decisions in the same order.
#include "sextant/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "sextant/base/check.h"
#include "sextant/plan/arena_model.h"
#include "sextant/plan/buffer_blocks.h"

namespace sx {
namespace {

using Kind = TapeEvent::Kind;

class Replay {
 public:
  Replay(const DpPlan& plan, const StepTape& tape) : plan_(plan), tape_(tape) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      buffers_.push_back({.blocks = blocks_of(plan.buffers[b]), .choice = &plan.buffers[b].choice});
      for (const UnitParam& param : plan.buffers[b].layout.params()) buffer_of_[param.fqn] = b;
    }
    units_.resize(plan.units.size());
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      for (const std::size_t unit : plan.buffers[b].units) units_[unit].buffers.push_back(b);
    }
    for (const TapeEvent& event : tape) {
      if (event.kind == Kind::kPreForward || event.kind == Kind::kPreBackward)
        order_.push_back({event.unit, event.kind == Kind::kPreBackward});
    }
    decide_what_fits();
  }

  DpMemory run() {
    memory_.at("start");
    for (const Buffer& b : buffers_) {
      memory_.lease(DpBox::kParams, b.blocks.params);
      memory_.lease(DpBox::kMaster, b.blocks.master);
      memory_.lease(DpBox::kMainGrads, b.blocks.local_grads);
      memory_.lease(DpBox::kMainGrads, b.blocks.grad_shard);
    }
    for (const Buffer& b : buffers_) memory_.take(DpBox::kMoments, b.blocks.moments);
    DpMemory out;
    out.persistent = memory_.live();
    step();
    out.first = memory_.allocated();
    known_ = true;
    step();
    out.states = memory_.states();
    out.allocated = memory_.allocated();
    return out;
  }

 private:
  struct Buffer {
    BufferBlocks blocks;
    const DpChoice* choice;
    bool gathered = false, on_wire = false, ahead = false, grads = false;
    bool complete = false, published = false;
    bool kept = false;       ///< neighbours have it
    bool from_kept = false;  ///< and it comes from them
  };
  struct Unit {
    std::vector<std::size_t> buffers;
    bool done = false, fits = false;
  };
  struct Use {
    std::size_t unit;
    bool backward;
  };

  /// From the last unit back, the one that runs last (the root) at the end, while the bytes last;
  /// and how far ahead gathers go.
  void decide_what_fits() {
    std::int64_t kept = 0, largest = 0;
    const std::size_t n = units_.size();
    for (std::size_t i = 0; i < n; ++i) {
      Unit& unit = units_[i + 1 < n ? n - 2 - i : n - 1];
      std::int64_t bytes = 0, budget = 0;
      for (const std::size_t b : unit.buffers) {
        bytes += gathered_bytes(b);
        if (buffers_[b].blocks.gathered > 0) budget = buffers_[b].choice->keep_bytes;
      }
      largest = std::max(largest, bytes);
      unit.fits = kept + bytes <= budget;
      if (unit.fits) kept += bytes;
    }
    budget_ = plan_.choice.prefetch_bytes < 0 ? 2 * largest : plan_.choice.prefetch_bytes;
  }
  std::int64_t gathered_bytes(std::size_t b) const {
    const DpBuffer& buffer = plan_.buffers[b];
    return params_sharded(buffer.choice)
               ? buffer.layout.gathered_numel() * buffer.choice.bytes.param
               : 0;
  }

  void step() {
    memory_.at("start of a step");
    memory_.begin_step();
    for (std::int64_t m = 0; m < plan_.choice.microbatches; ++m)
      microbatch(m + 1 == plan_.choice.microbatches);
    finish_replicate();
    optimizer_step();
    commit();
  }

  void microbatch(bool last) {
    last_ = last;
    next_reduce_ = cursor_ = 0;
    for (Buffer& buffer : buffers_) buffer.complete = false;
    for (Unit& unit : units_) unit.done = false;
    prefetch(units_.size());
    for (const TapeEvent& event : tape_) play(event);
    memory_.at("end of backward");
    for (std::size_t unit = units_.size(); unit-- > 0;) finish(unit);
    finish_reduce();
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (buffers_[b].on_wire) wait_gather(b);
      buffers_[b].ahead = false;
      release_after_backward(b);
    }
  }

  void play(const TapeEvent& event) {
    switch (event.kind) {
      case Kind::kTake: memory_.take(DpBox::kActivations, event.bytes); break;
      case Kind::kGive: memory_.give(DpBox::kActivations, event.bytes); break;
      case Kind::kPreForward:
        memory_.at("forward of " + plan_.units[event.unit].name);
        use(event.unit);
        break;
      case Kind::kPostForward: release_after_forward(event.unit); break;
      case Kind::kPreBackward:
        memory_.at("backward of " + plan_.units[event.unit].name);
        // Whatever ran later has ended, used or not.
        for (std::size_t later = units_.size(); later-- > event.unit + 1;) finish(later);
        use(event.unit);
        break;
      case Kind::kPostBackward: finish(event.unit); break;
      case Kind::kGradient: {
        const auto at = buffer_of_.find(event.parameter);
        SX_CHECK(at != buffer_of_.end(), "the plan has no parameter {}", event.parameter);
        need_grads(at->second);
        break;
      }
    }
  }

  void use(std::size_t unit) {
    ++cursor_;
    for (const std::size_t b : units_[unit].buffers) start_gather(b);
    for (const std::size_t b : units_[unit].buffers) {
      wait_gather(b);
      buffers_[b].ahead = false;
    }
    prefetch(unit);
  }

  // ---- parameters ----

  void wait_published(Buffer& buffer) {
    if (!buffer.published) return;
    buffer.published = false;
    memory_.end_lease(DpBox::kGathered, buffer.blocks.published);
  }
  void start_gather(std::size_t b) {
    Buffer& buffer = buffers_[b];
    if (buffer.blocks.gathered == 0 || buffer.gathered || buffer.on_wire) return;
    buffer.on_wire = true;
    buffer.from_kept = buffer.kept;
    memory_.lease(DpBox::kGathered, buffer.kept ? buffer.blocks.whole : buffer.blocks.gathered);
  }
  void wait_gather(std::size_t b) {
    Buffer& buffer = buffers_[b];
    wait_published(buffer);
    if (!buffer.on_wire) return;
    buffer.on_wire = false;
    buffer.gathered = true;
    if (buffer.from_kept) {
      memory_.end_lease(DpBox::kGathered, buffer.blocks.kept);
      buffer.kept = false;
    } else if (buffer.blocks.full > 0) {
      memory_.lease(DpBox::kGathered, buffer.blocks.full);
      memory_.end_lease(DpBox::kGathered, buffer.blocks.gathered);
    }
  }
  void give_back(std::size_t b, bool keep = false) {
    Buffer& buffer = buffers_[b];
    if (!buffer.gathered) return;
    buffer.gathered = false;
    if (keep && buffer.blocks.kept > 0) {
      buffer.kept = true;
      memory_.lease(DpBox::kGathered, buffer.blocks.kept);
    }
    const BufferBlocks& blocks = buffer.blocks;
    const bool copied = blocks.full > 0;
    memory_.end_lease(DpBox::kGathered, copied             ? blocks.full
                                        : buffer.from_kept ? blocks.whole
                                                           : blocks.gathered);
    buffer.from_kept = false;
  }
  void release_after_forward(std::size_t unit) {
    const bool next_is_own = cursor_ < order_.size() && order_[cursor_].unit == unit &&
                             order_[cursor_].backward && known_;
    if (next_is_own) return;
    const bool is_root = unit + 1 == units_.size();
    for (const std::size_t b : units_[unit].buffers) {
      if (plan_.buffers[b].units.size() > 1) continue;
      switch (buffers_[b].choice->release) {
        case Release::kAfterUse:
          if (!is_root) give_back(b);
          break;
        case Release::kKeepShard: give_back(b, true); break;
        case Release::kFits:
          if (!units_[unit].fits) give_back(b);
          break;
        case Release::kAfterBackward:
        case Release::kAfterStep: break;
      }
    }
  }
  void release_after_backward(std::size_t b) {
    if (buffers_[b].choice->release != Release::kAfterStep || last_) give_back(b);
  }

  void prefetch(std::size_t current) {
    if (!known_ || budget_ == 0) return;
    std::int64_t held = 0;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (buffers_[b].ahead) held += gathered_bytes(b);
    }
    if (current < units_.size()) {
      for (const std::size_t b : units_[current].buffers) held += gathered_bytes(b);
    }
    for (std::size_t i = cursor_; i < order_.size(); ++i) {
      if (order_[i].unit == current) continue;
      for (const std::size_t b : units_[order_[i].unit].buffers) {
        Buffer& buffer = buffers_[b];
        if (buffer.blocks.gathered == 0 || buffer.gathered || buffer.on_wire) continue;
        if (held + gathered_bytes(b) > budget_) return;
        start_gather(b);
        buffer.ahead = true;
        held += gathered_bytes(b);
      }
    }
  }

  // ---- gradients ----

  void need_grads(std::size_t b) {
    if (buffers_[b].grads) return;
    buffers_[b].grads = true;
    memory_.lease(DpBox::kGradUnsharded, buffers_[b].blocks.grads);
  }
  void drop_grads(std::size_t b) {
    if (!buffers_[b].grads) return;
    buffers_[b].grads = false;
    memory_.end_lease(DpBox::kGradUnsharded, buffers_[b].blocks.grads);
  }
  bool due(std::size_t b) const { return last_ || !sums_locally(*buffers_[b].choice); }

  void finish(std::size_t unit) {
    if (units_[unit].done) return;
    units_[unit].done = true;
    for (const std::size_t b : units_[unit].buffers) {
      const std::vector<std::size_t>& users = plan_.buffers[b].units;
      if (std::all_of(users.begin(), users.end(), [&](std::size_t u) { return units_[u].done; }))
        complete(b);
    }
  }
  void complete(std::size_t b) {
    buffers_[b].complete = true;
    need_grads(b);
    if (!due(b)) release_after_backward(b);
    while (next_reduce_ < buffers_.size() && buffers_[next_reduce_].complete) {
      const std::size_t next = next_reduce_++;
      if (!due(next)) continue;
      finish_reduce();
      start_reduce(next);
      release_after_backward(next);
      if (!plan_.choice.overlap_reduce) finish_reduce();
    }
  }
  void start_reduce(std::size_t b) {
    const BufferBlocks& blocks = buffers_[b].blocks;
    if (blocks.grad_wire > 0) {
      memory_.lease(DpBox::kCommBuffers, blocks.grad_wire);
      drop_grads(b);
    }
    memory_.lease(DpBox::kCommBuffers, blocks.sent);
    memory_.lease(DpBox::kCommBuffers, blocks.received);
    reducing_ = b;
  }
  void finish_reduce() {
    if (!reducing_) return;
    const std::size_t b = *reducing_;
    const BufferBlocks& blocks = buffers_[b].blocks;
    reducing_.reset();
    if (last_) finish_replicate();
    memory_.take(DpBox::kActivations, blocks.fold);
    memory_.give(DpBox::kActivations, blocks.fold);
    memory_.end_lease(DpBox::kCommBuffers, blocks.grad_wire);
    memory_.end_lease(DpBox::kCommBuffers, blocks.received);
    memory_.end_lease(DpBox::kCommBuffers, blocks.sent);
    drop_grads(b);
    if (last_ && blocks.replicate > 0) {
      memory_.lease(DpBox::kCommBuffers, blocks.replicate);
      replicating_ = b;
    }
  }
  void finish_replicate() {
    if (!replicating_) return;
    memory_.end_lease(DpBox::kCommBuffers, buffers_[*replicating_].blocks.replicate);
    replicating_.reset();
  }

  // ---- update ----

  void optimizer_step() {
    memory_.at("optimizer");
    for (const auto copies : {&BufferBlocks::decayed_copies, &BufferBlocks::plain_copies}) {
      std::int64_t bytes = 0;
      for (const Buffer& b : buffers_) bytes += b.blocks.*copies;
      memory_.take(DpBox::kActivations, bytes);
      memory_.give(DpBox::kActivations, bytes);
    }
  }

  /// Updated replicas are spread; where they are copied out, all are on the wire until they are
  /// used.
  void commit() {
    memory_.at("spread of updated parameters");
    for (std::size_t b = buffers_.size(); b-- > 0;) {
      Buffer& buffer = buffers_[b];
      wait_published(buffer);
      if (buffer.blocks.published == 0) continue;
      memory_.lease(DpBox::kGathered, buffer.blocks.published);
      buffer.published = true;
      if (!plan_.choice.overlap_param_gather) wait_published(buffer);
    }
  }

  const DpPlan& plan_;
  const StepTape& tape_;
  std::vector<Buffer> buffers_;
  std::vector<Unit> units_;
  std::map<std::string, std::size_t> buffer_of_;
  std::vector<Use> order_;
  ArenaModel memory_;
  std::int64_t budget_ = 0;
  bool known_ = false, last_ = false;
  std::size_t cursor_ = 0, next_reduce_ = 0;
  std::optional<std::size_t> reducing_, replicating_;
};

}  // namespace

const char* to_string(DpBox box) {
  switch (box) {
    case DpBox::kParams: return "params";
    case DpBox::kMaster: return "master";
    case DpBox::kMoments: return "moments";
    case DpBox::kMainGrads: return "main_grads";
    case DpBox::kGathered: return "gathered";
    case DpBox::kGradUnsharded: return "grad_unsharded";
    case DpBox::kCommBuffers: return "comm_buffers";
    case DpBox::kSpare: return "spare";
    case DpBox::kActivations: return "activations";
  }
  return "?";
}

std::int64_t DpMemory::persistent_total() const {
  std::int64_t total = 0;
  for (const std::int64_t bytes : persistent) total += bytes;
  return total;
}

DpMemory predict_memory(const DpPlan& plan, const StepTape& tape) {
  return Replay(plan, tape).run();
}

DpMemory predict_dp_memory(const DpPlan& plan) {
  return predict_memory(plan, plain_tape(plan.units));
}

double state_bytes_per_param(const DpChoice& choice) {
  const bool sharded = params_sharded(choice), cut = optimizer_sharded(choice);
  const bool local = sums_locally(choice);
  const auto shards = static_cast<double>(choice.num_shards);
  const double owners =
      shards * (choice.optimizer_over_replicas ? static_cast<double>(choice.num_replicas) : 1.0);
  const auto param = static_cast<double>(choice.bytes.param);
  const auto main = static_cast<double>(choice.bytes.main);
  const auto moments = static_cast<double>(choice.bytes.moments);
  double bytes = (main * (choice.bytes.param == choice.bytes.main && !sharded ? 0 : 1) + moments) /
                 (cut ? owners : 1);
  if (!sharded) bytes += param;
  if (sharded && choice.optimizer_over_replicas) bytes += param / shards;
  const bool whole_grads = !cut || (local && !sharded);
  return bytes + main / (whole_grads ? 1 : shards);
}

}  // namespace sx
