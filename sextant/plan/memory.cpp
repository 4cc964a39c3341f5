#include "sextant/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace sx {
namespace {

constexpr std::int64_t kBlockBytes = 128;

std::int64_t block(std::int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

/// Live bytes over the moments of a step.
class Ledger {
 public:
  void at(std::string moment) { moment_ = std::move(moment); }
  void take(DpBox box, std::int64_t bytes) {
    live_[static_cast<std::size_t>(box)] += bytes;
    std::int64_t total = 0;
    for (const std::int64_t each : live_) total += each;
    if (total <= peak_) return;
    peak_ = total;
    at_peak_ = live_;
    peak_moment_ = moment_;
  }
  void give(DpBox box, std::int64_t bytes) { live_[static_cast<std::size_t>(box)] -= bytes; }
  const DpMemory::Boxes& live() const { return live_; }
  void report(DpMemory& out) const {
    out.peak = peak_;
    out.at_peak = at_peak_;
    out.moment = peak_moment_;
  }

 private:
  DpMemory::Boxes live_{};
  DpMemory::Boxes at_peak_{};
  std::int64_t peak_ = 0;
  std::string moment_, peak_moment_;
};

/// Sizes of one buffer's blocks; 0 where there is none.
struct Blocks {
  std::int64_t params = 0, master = 0, moments = 0, main_grads = 0;  // persistent
  std::int64_t gathered = 0;                                         ///< as it comes over the wire
  std::int64_t full = 0;       ///< copied out; 0: the wire's own memory
  std::int64_t grads = 0;      ///< whole gradients of a microbatch; 0: they are persistent
  std::int64_t grad_wire = 0;  ///< copy in wire type and order; 0: the gradients themselves
  std::int64_t exchanged = 0;  ///< sent copies and received parts of an ordered fold
  std::int64_t published = 0;  ///< updated replicas on their way, where they are copied out
  std::int64_t replicate = 0;  ///< shard in wire type, on its way over replicas
};

Blocks blocks_of(const DpPlan& plan, const DpBuffer& buffer) {
  const DpChoice& choice = plan.choice;
  const ItemBytes& item = choice.bytes;
  const UnitLayout& layout = buffer.layout;
  const std::int64_t all = layout.gathered_numel();
  const bool copies = !layout.zero_copy();
  const std::int64_t full = copies ? layout.full_numel() : all;
  const std::int64_t chunk = plan.chunk(buffer), own = plan.own(buffer);
  const bool own_alignment = choice.compat == LayoutCompat::kSextant;
  const bool over_replicas = choice.optimizer_over_replicas && plan.optimizer_sharded;

  Blocks b;
  const std::int64_t main_align = std::max<std::int64_t>(1, kBlockBytes / item.main);
  const auto padded = [&](std::int64_t n) {
    return (n + main_align - 1) / main_align * main_align;
  };
  if (!plan.params_sharded) b.params = block(full * item.param);
  const bool aliased = item.param == item.main && own_alignment && !plan.params_sharded && !copies;
  if (!aliased) {
    std::int64_t numel = own;
    if (!own_alignment) {
      numel = 0;
      for (const UnitParam& param : layout.params()) numel += padded(param.num_elements());
    }
    b.master = block(numel * item.main);
  }
  if (plan.params_sharded && over_replicas) b.params = block(chunk * item.param);

  // Optimizer state is made per part of a parameter, each padded.
  if (plan.optimizer_sharded) {
    std::vector<std::int64_t> part(layout.params().size(), 0);
    for (const Segment& segment : layout.segments(0)) part[segment.param] += segment.size();
    for (const std::int64_t numel : part) b.moments += padded(numel) * item.moments;
  } else {
    for (const UnitParam& param : layout.params())
      b.moments += padded(param.num_elements()) * item.moments;
  }

  const bool local = !plan.params_sharded && plan.sum_local;
  const bool in_place = local && !copies;
  if (local) b.main_grads += block(full * item.main);
  if (!in_place) b.main_grads += block((plan.optimizer_sharded ? chunk : all) * item.main);

  if (plan.params_sharded) {
    b.gathered = block(all * item.param);
    if (copies) b.full = block(full * item.param);
  }
  if (!plan.params_sharded && plan.optimizer_sharded && copies)
    b.published = block(all * item.param);
  if (!local) b.grads = block(full * item.main);
  if (copies || item.reduce != item.main) b.grad_wire = block(all * item.reduce);
  const bool flat = choice.flat_order && choice.num_replicas > 1;
  if (flat && plan.optimizer_sharded && choice.num_shards > 1) {
    b.exchanged = block(choice.num_replicas * all * item.reduce) +
                  block(choice.num_replicas * choice.num_shards * chunk * item.reduce);
  } else if (choice.a2a_wire && choice.num_shards > 1 && plan.optimizer_sharded &&
             item.reduce == 2) {
    b.exchanged = block(choice.num_shards * chunk * item.reduce);
  }
  if (choice.num_replicas > 1 && !flat && item.reduce != item.main)
    b.replicate = block(chunk * item.reduce);
  return b;
}

/// The engine's step in terms of blocks: the same decisions in the same order.
class Replay {
 public:
  explicit Replay(const DpPlan& plan) : plan_(plan), state_(plan.buffers.size()) {
    for (const DpBuffer& buffer : plan.buffers) blocks_.push_back(blocks_of(plan, buffer));
    buffers_of_.resize(plan.units.size());
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      for (const std::size_t unit : plan.buffers[b].units) buffers_of_[unit].push_back(b);
    }
    budget_ = plan.choice.prefetch_bytes;
    if (budget_ < 0) {
      for (const auto& buffers : buffers_of_) {
        std::int64_t bytes = 0;
        for (const std::size_t b : buffers) bytes += blocks_[b].gathered;
        budget_ = std::max(budget_, 2 * bytes);
      }
    }
  }

  DpMemory run() {
    ledger_.at("start");
    for (const Blocks& b : blocks_) {
      ledger_.take(DpBox::kParams, b.params);
      ledger_.take(DpBox::kMaster, b.master);
      ledger_.take(DpBox::kMoments, b.moments);
      ledger_.take(DpBox::kMainGrads, b.main_grads);
    }
    DpMemory memory;
    memory.persistent = ledger_.live();
    for (std::int64_t m = 0; m < plan_.choice.microbatches; ++m)
      microbatch(m + 1 == plan_.choice.microbatches);
    finish_replicate();
    commit();
    ledger_.report(memory);
    return memory;
  }

 private:
  struct State {
    bool gathered = false, ahead = false, grads = false, complete = false;
  };
  void microbatch(bool last) {
    last_ = last;
    next_reduce_ = 0;
    for (State& state : state_) state.complete = false;
    const std::size_t n = plan_.units.size();
    cursor_ = 0;
    prefetch(n);
    for (std::size_t unit = 0; unit < n; ++unit) {
      ledger_.at("forward of " + plan_.units[unit].name);
      ++cursor_;
      gather(unit);
      prefetch(unit);
      const bool next_is_own = unit + 1 == n;
      if (!next_is_own && plan_.choice.release == Release::kAfterUse) release(unit);
    }
    for (std::size_t unit = n; unit-- > 0;) {
      ledger_.at("backward of " + plan_.units[unit].name);
      ++cursor_;
      gather(unit);
      prefetch(unit);
      for (const std::size_t b : buffers_of_[unit]) {
        // A tied parameter's gradient comes as one, when its owner's backward ends.
        const auto owners = plan_.buffers[b].units.begin();
        if (std::find(owners, owners + static_cast<std::ptrdiff_t>(plan_.buffers[b].num_owners),
                      unit) != owners + static_cast<std::ptrdiff_t>(plan_.buffers[b].num_owners))
          need_grads(b);
      }
      for (const std::size_t b : buffers_of_[unit]) {
        // A buffer is complete when the first of its units in forward order has ended.
        const auto& users = plan_.buffers[b].units;
        if (*std::min_element(users.begin(), users.end()) == unit) complete(b);
      }
    }
    ledger_.at("end of backward");
    finish_reduce();
    for (std::size_t b = 0; b < state_.size(); ++b) {
      state_[b].ahead = false;
      release_after_backward(b);
    }
  }

  /// Updated parameters are spread; where they are copied out, all buffers are on the wire at once.
  void commit() {
    ledger_.at("spread of updated parameters");
    std::int64_t bytes = 0;
    for (const Blocks& b : blocks_) bytes += b.published;
    ledger_.take(DpBox::kGathered, bytes);
    ledger_.give(DpBox::kGathered, bytes);
  }

  void gather(std::size_t unit) {
    for (const std::size_t b : buffers_of_[unit]) start_gather(b);
    for (const std::size_t b : buffers_of_[unit]) {
      wait_gather(b);
      state_[b].ahead = false;
    }
  }
  void start_gather(std::size_t b) {
    if (!plan_.params_sharded || state_[b].gathered || on_wire_.count(b) > 0) return;
    ledger_.take(DpBox::kGathered, blocks_[b].gathered);
    on_wire_[b] = true;
  }
  void wait_gather(std::size_t b) {
    if (on_wire_.erase(b) == 0) return;
    if (blocks_[b].full > 0) {
      ledger_.take(DpBox::kGathered, blocks_[b].full);
      ledger_.give(DpBox::kGathered, blocks_[b].gathered);
    }
    state_[b].gathered = true;
  }
  void give_back(std::size_t b) {
    if (!state_[b].gathered) return;
    state_[b].gathered = false;
    ledger_.give(DpBox::kGathered, blocks_[b].full > 0 ? blocks_[b].full : blocks_[b].gathered);
  }
  void release(std::size_t unit) {
    for (const std::size_t b : buffers_of_[unit]) {
      if (plan_.buffers[b].units.size() == 1) give_back(b);
    }
  }
  void release_after_backward(std::size_t b) {
    if (plan_.choice.release != Release::kAfterStep || last_) give_back(b);
  }

  /// Units in the order of use, this one's place onwards: forward, then backward.
  std::vector<std::size_t> ahead() const {
    const std::size_t n = plan_.units.size();
    std::vector<std::size_t> units;
    for (std::size_t i = cursor_; i < 2 * n; ++i) units.push_back(i < n ? i : 2 * n - 1 - i);
    return units;
  }
  void prefetch(std::size_t current) {
    if (!plan_.params_sharded || budget_ == 0) return;
    std::int64_t held = 0;
    for (std::size_t b = 0; b < state_.size(); ++b) {
      if (state_[b].ahead) held += blocks_[b].gathered;
    }
    if (current < plan_.units.size()) {
      for (const std::size_t b : buffers_of_[current]) held += blocks_[b].gathered;
    }
    for (const std::size_t unit : ahead()) {
      if (unit == current) continue;
      for (const std::size_t b : buffers_of_[unit]) {
        if (state_[b].gathered || on_wire_.count(b) > 0) continue;
        if (held + blocks_[b].gathered > budget_) return;
        start_gather(b);
        state_[b].ahead = true;
        held += blocks_[b].gathered;
      }
    }
  }

  void need_grads(std::size_t b) {
    if (state_[b].grads) return;
    state_[b].grads = true;
    ledger_.take(DpBox::kGradUnsharded, blocks_[b].grads);
  }
  void drop_grads(std::size_t b) {
    if (!state_[b].grads) return;
    state_[b].grads = false;
    ledger_.give(DpBox::kGradUnsharded, blocks_[b].grads);
  }
  void complete(std::size_t b) {
    state_[b].complete = true;
    if (!due()) release_after_backward(b);
    while (next_reduce_ < plan_.reduce_order.size() &&
           state_[plan_.reduce_order[next_reduce_]].complete) {
      const std::size_t next = plan_.reduce_order[next_reduce_++];
      if (!due()) continue;
      finish_reduce();
      start_gather(next);
      wait_gather(next);
      start_reduce(next);
      release_after_backward(next);
      if (!plan_.choice.overlap_reduce) finish_reduce();
    }
  }
  bool due() const { return last_ || !plan_.sum_local; }
  void start_reduce(std::size_t b) {
    const Blocks& blocks = blocks_[b];
    if (blocks.grad_wire > 0) {
      ledger_.take(DpBox::kCommBuffers, blocks.grad_wire);
      drop_grads(b);
    }
    ledger_.take(DpBox::kCommBuffers, blocks.exchanged);
    reducing_ = b;
  }
  void finish_reduce() {
    if (!reducing_) return;
    const std::size_t b = *reducing_;
    reducing_.reset();
    if (last_) finish_replicate();
    ledger_.give(DpBox::kCommBuffers, blocks_[b].grad_wire + blocks_[b].exchanged);
    drop_grads(b);
    if (last_ && blocks_[b].replicate > 0) {
      ledger_.take(DpBox::kCommBuffers, blocks_[b].replicate);
      replicating_ = b;
    }
  }
  void finish_replicate() {
    if (!replicating_) return;
    ledger_.give(DpBox::kCommBuffers, blocks_[*replicating_].replicate);
    replicating_.reset();
  }

  const DpPlan& plan_;
  std::vector<Blocks> blocks_;
  std::vector<State> state_;
  std::vector<std::vector<std::size_t>> buffers_of_;
  std::map<std::size_t, bool> on_wire_;
  std::int64_t budget_ = 0;
  Ledger ledger_;
  bool last_ = false;
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
  }
  return "?";
}

std::int64_t DpMemory::persistent_total() const {
  std::int64_t total = 0;
  for (const std::int64_t bytes : persistent) total += bytes;
  return total;
}

DpMemory predict_dp_memory(const DpPlan& plan) { return Replay(plan).run(); }

double state_bytes_per_param(const DpChoice& choice) {
  const bool sharded = choice.preset == DpPreset::kFsdp1 || choice.preset == DpPreset::kFsdp2;
  const bool cut = choice.preset != DpPreset::kDdp;
  const bool local = choice.sum == MicrobatchSum::kPreset
                         ? choice.preset == DpPreset::kDdp || choice.preset == DpPreset::kZero1
                         : choice.sum == MicrobatchSum::kLocal;
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
