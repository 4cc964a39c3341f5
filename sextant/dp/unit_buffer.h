#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sextant/dp/data_comms.h"
#include "sextant/dp/offload.h"
#include "sextant/dp/policy.h"
#include "sextant/mesh/unit_layout.h"
#include "sextant/nn/module.h"
#include "sextant/shard/exact_sum.h"
#include "sextant/shard/grad_scaler.h"
#include "sextant/shard/sharded_state.h"
#include "sextant/tensor/arena.h"

namespace sx {

/// A rank's part of one parameter: what its optimizer updates and its checkpoint writes.
struct OwnedPart {
  Parameter* parameter = nullptr;
  std::int64_t begin = 0;  ///< first element in row-major order
  std::int64_t end = 0;    ///< behind the last; == begin when this rank owns nothing of it
  at::Tensor master;       ///< [padded] in main dtype; padding zero
  at::Tensor grad;         ///< [end - begin] in main dtype, valid from finish_grads to begin_step
  bool writer = false;     ///< of the ranks that hold the same part, the first
  /// This rank's place among them, and their number: replicas, or all data ranks.
  std::int64_t copy = 0, copies = 1;
  bool whole() const { return begin == 0 && end == parameter->numel(); }
};

/// dtypes of one buffer: gathered parameters, gradients on the wire, masters and main gradients.
struct BufferDtypes {
  c10::ScalarType param = c10::kFloat;
  c10::ScalarType reduce = c10::kFloat;
  c10::ScalarType main = c10::kFloat;
};

/// Parameters that are gathered, reduced and updated together: those of a unit that agree in dtype
/// and trainability, or a bucket of the model. Memory and collectives of one buffer; when they
/// happen is Engine's business.
///
/// Regions, in elements of the gathered buffer: a shard coordinate's `chunk`, and inside it the
/// `own` range that this rank's optimizer updates (the same, but for ddp, where it is everything,
/// and for an optimizer sharded over replicas too, where it is 1/R of it).
/// Threads: the rank's thread.
class UnitBuffer {
 public:
  struct Setup {
    std::string name;
    std::vector<Parameter*> parameters;        ///< in registration order
    std::shared_ptr<const UnitLayout> layout;  ///< over exactly these parameters
    Policy policy;                             ///< of this buffer's units, overrides applied
    BufferDtypes dtypes;
    bool trainable = true;
    /// Where the policy offloads: memory of the store, and the way there and back.
    std::shared_ptr<Arena> store{};
    OffloadQueue* offload = nullptr;
  };
  UnitBuffer(Setup setup, DataComms& comms, std::shared_ptr<Arena> arena);
  ~UnitBuffer();
  UnitBuffer(const UnitBuffer&) = delete;
  UnitBuffer& operator=(const UnitBuffer&) = delete;

  const std::string& name() const { return setup_.name; }
  const std::vector<Parameter*>& parameters() const { return setup_.parameters; }
  const Policy& policy() const { return setup_.policy; }
  const UnitLayout& layout() const { return *setup_.layout; }
  const BufferDtypes& dtypes() const { return setup_.dtypes; }
  bool trainable() const { return setup_.trainable; }
  bool params_sharded() const { return params_sharded_; }
  /// Bytes of the gathered parameters.
  std::int64_t gathered_bytes() const;
  /// Bytes that one gather and one reduction move on the wire, as the largest buffer of the call.
  std::int64_t reduce_bytes() const;

  // Parameters.
  const std::vector<OwnedPart>& owned() const { return owned_; }
  /// Masters changed (an optimizer step, initial values, a checkpoint): carries them to wherever
  /// parameters are kept. `wait_params` ends what is in flight.
  void publish();
  void wait_params();

  ShardedState state() const { return state_; }
  /// No-ops when parameters are replicated or already there.
  void start_gather();
  void wait_gather();
  /// Offloaded: the shard's way from the store, ahead of its gather.
  void start_fetch();
  /// Back to shards; with `keep_ways` > 1 the group of neighbours keeps the whole.
  void release(std::int64_t keep_ways = 0);

  // Gradients.
  void begin_step();
  void begin_microbatch();
  /// A microbatch's gradient of parameter i; undefined counts as zero.
  void take(std::size_t i, const at::Tensor& fresh);
  bool taken(std::size_t i) const { return taken_[i]; }            ///< in this microbatch
  bool ever_taken(std::size_t i) const { return ever_taken_[i]; }  ///< a real one in this step
  /// Parameters without a gradient in this microbatch count as zero.
  void fill_unused();
  /// Starts the reduction of what was taken since the last one. `last`: of the step.
  void start_reduce(bool last);
  bool reducing() const { return is_reducing(state_); }
  /// Waits for the shard axis and adds the result; starts the replicate axis after the last one.
  void finish_reduce();
  bool replicating() const { return replicating_; }
  void finish_replicate();
  /// Offloaded: waits until the sums are in the store.
  void wait_store();
  /// Local gradients that no reduction has taken yet.
  bool has_local() const;
  /// Elements of the own gradient range that this rank answers for in the norm.
  void add_squares(ExactSum& sum) const;
  void scale_grads(double factor);

  /// Drains what is in flight, drops leases, back to shards and no gradients. Never throws.
  void abort() noexcept;

  /// Whole parameter i in main dtype, and whole gradient i, on every rank. Collective.
  at::Tensor whole_master(std::size_t i);
  at::Tensor whole_grad(std::size_t i);

 private:
  struct Range {
    std::int64_t begin = 0, numel = 0;
    std::int64_t end() const { return begin + numel; }
  };
  /// Elements that lie together in the full buffer and in the gathered one.
  struct Move {
    std::int64_t full = 0, gathered = 0, numel = 0;
  };
  void set_ranges();
  void allocate();
  void make_owned();
  void attach_params();
  void detach_params();
  at::Tensor wire_params() const;  ///< [G]
  at::Tensor full_params() const;  ///< [full]
  void copy_in_masters();          ///< own range of the wire from masters
  void find_moves_and_gaps();
  void copy_out(const at::Tensor& gathered, const at::Tensor& full) const;
  void start_gather_from_neighbours();
  void need_local();
  at::Tensor local_grad(std::size_t i) const;
  at::Tensor local_flat() const;
  void pack_wire(const at::Tensor& wire) const;
  void start_shard_stage(const at::Tensor& wire);
  MeanFactors mean_factors() const;
  void fold_received();
  void add_result();
  void start_replicate();
  at::Tensor result_chunk() const;
  at::Tensor sum_chunk() const;  ///< where the shard's sum is made
  void start_store();
  void zero_gaps(const at::Tensor& flat, bool gathered, Range within) const;
  std::vector<std::int64_t> chunk_counts() const;
  at::Tensor assemble(const std::vector<at::Tensor>& parts, std::size_t i);
  CallOptions call(const char* what) const;

  Setup setup_;
  DataComms& comms_;
  std::shared_ptr<Arena> arena_;
  bool params_sharded_, optimizer_sharded_, over_replicas_, identity_;
  std::int64_t gathered_ = 0, full_ = 0;
  Range chunk_, own_;

  // Parameters.
  ShardedState state_ = ShardedState::kSharded;
  std::vector<Move> moves_;  ///< none when the two buffers are one
  std::vector<Range> gaps_full_, gaps_gathered_;
  std::vector<OwnedPart> owned_;
  std::vector<std::int64_t> own_offset_;   ///< of each owned part, in the own range
  std::vector<std::int64_t> part_offset_;  ///< of each owned part, in the gathered buffer
  Lease wire_, full_lease_, master_lease_, chunk_lease_, kept_shard_;
  at::Tensor master_;        ///< whole own range or packed parts, main dtype
  at::Tensor chunk_params_;  ///< chunk in param dtype, ready to be gathered; undefined: cast first
  Handle gather_handle_, publish_handle_;
  bool offload_params_ = false, offload_grads_ = false;
  Lease fetched_;  ///< shard in param dtype, from the store
  OffloadQueue::Ticket fetch_ = 0;
  bool publishing_ = false;
  std::int64_t kept_ways_ = 0;

  // Gradients.
  bool local_persistent_ = false, in_place_ = false;
  Lease staged_;  ///< sum of the shard, on its way to or from the store
  OffloadQueue::Ticket stage_ = 0;
  Lease local_lease_, result_lease_, grad_wire_, receive_, send_, replicate_lease_;
  at::Tensor result_;  ///< chunk (ddp: everything) in main dtype
  std::vector<bool> has_value_, taken_, ever_taken_;
  bool reduced_once_ = false, last_ = false, replicating_ = false, stateless_reduce_ = false;
  bool received_ = false;  ///< all_to_all: fold on arrival
  at::Tensor wire_grads_;
  Handle reduce_handle_, replicate_handle_;
};

}  // namespace sx
