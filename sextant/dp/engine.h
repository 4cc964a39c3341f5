#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sextant/dp/data_comms.h"
#include "sextant/dp/gather_plan.h"
#include "sextant/dp/policy.h"
#include "sextant/dp/unit_buffer.h"
#include "sextant/nn/grad_hooks.h"
#include "sextant/nn/module.h"
#include "sextant/shard/grad_norm.h"
#include "sextant/tensor/arena.h"

namespace sx {

/// Data parallelism of every kind, from replicated parameters (ddp) to fully sharded ones (fsdp),
/// as one mechanism over unit buffers; what differs is a row of the table in policy.h.
///
///   Engine engine(model, comms, policy, at::kFloat);   // takes over a model without memory
///   engine.init_parameters(seed);
///   engine.begin_step();
///   for (i < n) {
///     engine.begin_microbatch(/*is_last=*/i == n - 1);
///     engine.backward(loss(i), scale);
///   }
///   engine.finish_grads();
///   const StepSums sums = engine.step_sums();
///   engine.clip(sums.norm.norm, max_norm);
///   ... an optimizer over engine.owned() ...
///   engine.commit();
///
/// Units gather their parameters before they run and give them back after, by hooks; without a
/// microbatch (evaluation) too. Gradients are sums over ranks, never averages unless the policy
/// says so: the loss is divided by the global number of valid tokens before backward.
/// Bits:    those of the hook-free reference (shard/gather_param.h) with the same mesh, order and
///          accumulation, for every preset, layout, release policy and overlap.
/// Threads: the rank's thread; every rank makes the same calls in the same order.
/// Errors:  ContractError when called out of order; ConfigError for a policy or model that cannot
///          be run (SX2-036); DistError. After an exception only `abort_iteration` is allowed.
class Engine {
 public:
  /// `root` has no memory yet; its units are those of `Module::mark_unit`. `dtype`: of parameters
  /// that declare none. `root`, `comms` must outlive the engine. Collective.
  Engine(Module& root, DataComms& comms, Policy policy, c10::ScalarType dtype,
         std::shared_ptr<Arena> arena = nullptr);
  ~Engine();  ///< takes its hooks off; parameters lose their memory
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Each rank makes its own part; the whole is the same on every mesh. Collective.
  void init_parameters(std::uint64_t seed);

  void begin_step();
  void begin_microbatch(bool is_last);
  /// Ends the microbatch. `scale` is usually 1 / (global number of loss tokens).
  void backward(const at::Tensor& loss, double scale);
  /// A microbatch for which this rank has no data, or whose loss it did not compute: takes part in
  /// every collective of the others with zeros.
  void shadow_microbatch(bool is_last);
  /// Whether any rank has data for another microbatch; for ranks whose data end at different
  /// times. Collective.
  bool any_rank_has(bool data);
  /// This rank leaves a unit out of the current forward that others run. Place: where it would
  /// have run.
  void skip(Module& unit);
  void finish_grads();
  /// Norm of the whole gradient, and sums over ranks of the given numbers. Collective.
  StepSums step_sums(std::span<const std::int64_t> sums = {});
  /// Scales the gradients if the norm is above max_norm (> 0); returns the coefficient.
  double clip(double norm, double max_norm);
  void scale_grads(double factor);
  /// The optimizer has changed masters: spreads them.
  void commit();
  /// Drains and drops everything of the step that failed; the next `begin_step` is correct.
  void abort_iteration() noexcept;

  /// Microbatches inside it are summed locally whatever the policy says. Not around the last one.
  class NoSync {
   public:
    explicit NoSync(Engine& engine) : engine_(engine) { ++engine_.no_sync_; }
    ~NoSync() { --engine_.no_sync_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Engine& engine_;
  };

  /// Trainable parts in registration order; names and order are the same on every rank.
  const std::vector<OwnedPart>& owned() const { return owned_; }
  /// Frozen parts.
  const std::vector<OwnedPart>& frozen() const { return frozen_; }
  /// False for parts that Unused::kKeep leaves alone in this step.
  bool updates(std::size_t part) const { return updates_.at(part); }
  /// Masters were written from outside (a checkpoint). Collective.
  void publish();

  const Policy& policy() const { return policy_; }
  Arena& arena() { return *arena_; }
  /// What is offloaded; empty where nothing is.
  const Arena* store() const { return store_.get(); }
  std::vector<const UnitBuffer*> buffers() const;
  const GatherPlan& plan() const { return plan_; }
  std::vector<std::string> unit_names() const;
  /// Parameter and gradient in full, on every rank, by name. Collective; for tests and exports.
  at::Tensor whole_parameter(const std::string& fqn);
  at::Tensor whole_gradient(const std::string& fqn);

 private:
  struct Unit {
    Module* module = nullptr;
    std::string name;
    std::vector<std::size_t> buffers;
    std::int64_t outstanding = 0;  ///< calls whose backward has not ended
    bool keep_fits = false;
  };
  struct Buffer {
    std::unique_ptr<UnitBuffer> memory;
    std::vector<std::size_t> units;
    bool complete = false;    ///< all gradients of this microbatch are in
    bool dispatched = false;  ///< its reduction was started (or is not due)
    bool ahead = false;       ///< gathered before it was needed
  };
  /// One forward call of a unit; `begin` and `end` number the moments of forward.
  struct Call {
    std::size_t unit = 0;
    std::int64_t begin = 0, end = 0;
    bool wants_backward = false, started = false, finished = false;
  };
  struct Place {
    std::size_t buffer = 0, index = 0;
  };

  void build_units();
  void build_buffers(c10::ScalarType dtype);
  void add_buffers(const std::string& name, const std::vector<Parameter*>& parameters,
                   const Policy& policy, const BufferDtypes& dtypes, bool trainable);
  Policy policy_of(const Module* unit) const;
  void decide_what_fits();
  void verify_ranks();
  void add_hooks();

  void pre_forward(std::size_t unit);
  void post_forward(std::size_t unit, bool wants_backward);
  void pre_backward(std::size_t unit);
  void post_backward(std::size_t unit);
  void gather(std::size_t unit);
  void prefetch(std::size_t current);
  void release_after_forward(std::size_t unit);
  void finish_call(Call& call);
  void finish_calls_after(std::int64_t moment);
  void complete(std::size_t buffer);
  void dispatch_reductions();
  void finish_reduction();
  void note_store(UnitBuffer* buffer);
  void release_after_backward(Buffer& buffer);
  bool due(const Buffer& buffer) const;
  void end_backward();
  void check_strict() const;
  void compare_plans();
  void agree_on_unused();
  Place place_of(const std::string& fqn) const;

  Module& root_;
  DataComms& comms_;
  Policy policy_;
  std::shared_ptr<Arena> arena_, store_;
  std::unique_ptr<OffloadQueue> offload_;  ///< null where nothing is offloaded
  UnitBuffer* storing_ = nullptr;          ///< its sums are on their way to the store
  std::vector<Unit> units_;
  std::vector<Buffer> buffers_;
  std::vector<std::size_t> reduce_order_;  ///< trainable buffers, last parameters first
  std::vector<Parameter*> parameters_;     ///< all, in registration order
  std::vector<Place> places_;              ///< of each
  std::vector<std::size_t> trainable_;     ///< indices into parameters_
  std::unique_ptr<GradHooks> hooks_;
  std::vector<OwnedPart> owned_, frozen_;
  std::vector<bool> updates_;

  GatherPlan plan_;
  bool any_sharded_ = false;
  bool plan_agreed_ = false, plans_compared_ = false;
  std::vector<Call> calls_;
  std::vector<std::size_t> open_;  ///< calls begun and not ended
  std::int64_t moment_ = 0;
  std::size_t next_reduce_ = 0;
  UnitBuffer* reducing_ = nullptr;
  UnitBuffer* replicating_ = nullptr;
  std::int64_t prefetch_budget_ = 0;

  int no_sync_ = 0;
  std::int64_t step_ = 0, microbatch_ = 0;
  bool in_step_ = false, in_microbatch_ = false, in_backward_ = false, is_last_ = false;
  bool last_done_ = false;
};

}  // namespace sx
