#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sextant/mesh/unit_layout.h"

namespace sx {

/// What is replicated and what is sharded over the data ranks. Each is a row of one table; the
/// engine has no other code for them.
enum class Preset : std::uint8_t { kDdp, kZero1, kZero2, kFsdp1, kFsdp2 };

/// Order in which gradients of R x W ranks are summed: one fold over all in ascending global rank,
/// or over the shard axis first and then over the replicate axis.
enum class FoldOrder : std::uint8_t { kFlat, kNested };

/// Where microbatches are summed: unsharded and local, reduced once at the last one; or each one
/// reduced and then added to the shard (over replicas only once, except in flat order).
enum class Accumulate : std::uint8_t { kAuto, kLocal, kReduced };

/// kOne: the loss is divided by the global number of tokens already. kMean: gradients are
/// multiplied by 1 / (R * W) before they are summed.
enum class GradScale : std::uint8_t { kOne, kMean };

/// A parameter that a step's loss does not reach on this rank.
enum class Unused : std::uint8_t {
  kZero,    ///< counts as zero
  kStrict,  ///< is an error that names rank, unit and parameter
  kKeep,    ///< if no rank reaches it, the optimizer leaves it alone
};

/// One parameter used by two units.
enum class Tie : std::uint8_t { kError, kMergeUnits };

/// kA2aFp32: 16-bit gradients travel by all_to_all and are folded in fp32 with one rounding,
/// whatever the transport would do.
enum class ReduceWire : std::uint8_t { kReduceDtype, kA2aFp32 };

/// Whether a unit's parameters go back to shards between its forward and its backward.
struct Reshard {
  enum class Kind : std::uint8_t {
    kAuto,       ///< kAlways for units, kNever for the root's own parameters
    kAlways,     ///< except for the unit that backward begins with
    kNever,      ///< kept until backward
    kKeepShard,  ///< each group of `ways` ranks keeps the whole (ZeRO++, arXiv 2306.10209, hpZ)
    kFits,       ///< kept while the kept units fit `keep_bytes`, last units first
  };
  Kind kind = Kind::kAuto;
  std::int64_t ways = 0;
  std::int64_t keep_bytes = 0;
};

/// What may differ for units whose name matches; unset fields are the policy's.
struct UnitOverride {
  std::string pattern;  ///< shell pattern over the unit's name, "layers.*"; "root" is the root
  std::optional<Preset> preset{};
  std::optional<LayoutKind> layout{};
  std::optional<Reshard> reshard_after_forward{};
  std::optional<Accumulate> accumulate{};
  std::optional<c10::ScalarType> param_dtype{};
  std::optional<c10::ScalarType> reduce_dtype{};
  std::optional<c10::ScalarType> main_dtype{};
  std::optional<c10::ScalarType> output_dtype{};
  std::optional<bool> cast_inputs{};
  std::optional<ReduceWire> wire{};
};

/// All choices of the engine; the fields are the keys `parallelism.dp.*`.
struct Policy {
  Preset preset = Preset::kFsdp2;
  std::optional<LayoutKind> layout{};  ///< unset: the preset's
  FoldOrder order = FoldOrder::kNested;
  Accumulate accumulate = Accumulate::kAuto;
  bool optimizer_over_replicas = false;  ///< optimizer state sharded over R * W instead of W
  Reshard reshard_after_forward{};
  bool reshard_after_backward = true;  ///< false: kept for the next microbatch
  GradScale grad_scale = GradScale::kOne;
  Unused unused = Unused::kZero;
  Tie tie = Tie::kError;
  std::optional<c10::ScalarType> param_dtype{};   ///< gathered and computed in; unset: as declared
  std::optional<c10::ScalarType> reduce_dtype{};  ///< gradients on the wire; unset: main_dtype
  std::optional<c10::ScalarType> main_dtype{};    ///< masters and main gradients; unset: fp32, fp64
                                                  ///< for fp64 parameters
  std::optional<c10::ScalarType> output_dtype{};  ///< a unit's output is cast to it, unless it is
                                                  ///< a single number (a loss); unset: as computed
  bool cast_inputs = true;  ///< where param_dtype is set, a unit's floating input is cast to it
  std::int64_t prefetch_bytes = -1;               ///< gathered ahead; -1: two units, 0: off
  std::int64_t unit_cap = std::int64_t{2} << 30;  ///< bytes; larger units get several buffers
  std::int64_t bucket_elements = 0;               ///< 0: max(40,000,000, 1,000,000 W)
  std::int64_t num_buckets = 0;
  std::int64_t block_elements = 0;  ///< of layout `block`; 0: 128 bytes
  bool pad_for_bus = false;
  LayoutCompat compat = LayoutCompat::kSextant;
  bool overlap_reduce = true;        ///< a reduction is waited for when the next one starts
  bool overlap_param_gather = true;  ///< updated parameters are waited for when they are used
  ReduceWire wire = ReduceWire::kReduceDtype;
  /// Kept in a store beside the memory that computes, and copied from and to it: masters, and with
  /// them what units are gathered from; main gradients. Sharded units only.
  bool offload_params = false, offload_grads = false;
  bool separate_comms = true;  ///< own communicators for gather and reduce
  std::vector<UnitOverride> overrides{};
};

/// A row of the table of presets.
struct PresetRow {
  Preset preset;
  const char* name;        ///< as recipes write it
  bool params_sharded;     ///< while training
  bool optimizer_sharded;  ///< gradients at the step and optimizer state
  Accumulate accumulate;   ///< what kAuto means
  LayoutKind layout;
};
const PresetRow& preset_row(Preset preset);
/// What the policy means on W shards: with one, nothing can be sharded, so parameters stay whole
/// and microbatches are summed locally unless the policy says otherwise.
bool shards_params(const Policy& policy, std::int64_t num_shards);
Accumulate accumulation(const Policy& policy, std::int64_t num_shards);
/// Errors: empty when no preset has this name.
std::optional<Preset> find_preset(const std::string& name);

/// Faults of a policy for R replicas of W shards, one line each; empty when there are none.
std::vector<std::string> policy_faults(const Policy& policy, std::int64_t num_replicas,
                                       std::int64_t num_shards);

}  // namespace sx
