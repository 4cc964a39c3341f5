// From words of a recipe to the engine's choices.
#include "sextant/train/dp_policy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "sextant/base/diagnostic.h"

namespace sx {
namespace {

std::optional<c10::ScalarType> dtype_of(DtypeOrAuto dtype) {
  switch (dtype) {
    case DtypeOrAuto::kAuto: return std::nullopt;
    case DtypeOrAuto::kFp32: return c10::kFloat;
    case DtypeOrAuto::kFp64: return c10::kDouble;
    case DtypeOrAuto::kBf16: return c10::kBFloat16;
    case DtypeOrAuto::kFp16: return c10::kHalf;
  }
  return std::nullopt;
}

Preset preset_of(Zero zero) {
  switch (zero) {
    case Zero::kDdp: return Preset::kDdp;
    case Zero::kZero1: return Preset::kZero1;
    case Zero::kZero2: return Preset::kZero2;
    case Zero::kFsdp1: return Preset::kFsdp1;
    case Zero::kFsdp2: return Preset::kFsdp2;
  }
  return Preset::kFsdp2;
}

std::optional<LayoutKind> layout_of(DpLayout layout) {
  switch (layout) {
    case DpLayout::kAuto: return std::nullopt;
    case DpLayout::kBucket: return LayoutKind::kBucket;
    case DpLayout::kBucketPlain: return LayoutKind::kBucketPlain;
    case DpLayout::kFlat: return LayoutKind::kFlat;
    case DpLayout::kPerParam: return LayoutKind::kPerParam;
    case DpLayout::kBlock: return LayoutKind::kBlock;
    case DpLayout::kTensor: return LayoutKind::kTensor;
  }
  return std::nullopt;
}

/// "fits" may use half of the host's memory, shared by the run's ranks.
std::int64_t bytes_to_keep(const Recipe& recipe) {
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return pages * page / 2 / std::max<std::int64_t>(1, recipe.parallelism.data_ranks());
}

Reshard reshard_of(const Recipe& recipe, const Switch& value) {
  const std::string& text = value.text;
  if (text == "auto") return {};
  if (text == "true") return {.kind = Reshard::Kind::kAlways};
  if (text == "false") return {.kind = Reshard::Kind::kNever};
  if (text == "fits") return {.kind = Reshard::Kind::kFits, .keep_bytes = bytes_to_keep(recipe)};
  return {.kind = Reshard::Kind::kKeepShard, .ways = std::stoll(text)};
}

Accumulate accumulate_of(DpAccumulate accumulate) {
  switch (accumulate) {
    case DpAccumulate::kAuto: return Accumulate::kAuto;
    case DpAccumulate::kLocal: return Accumulate::kLocal;
    case DpAccumulate::kReduced: return Accumulate::kReduced;
  }
  return Accumulate::kAuto;
}

ReduceWire wire_of(DpWire wire) {
  return wire == DpWire::kA2aFp32 ? ReduceWire::kA2aFp32 : ReduceWire::kReduceDtype;
}

UnitOverride override_of(const Recipe& recipe, const DpOverride& given) {
  UnitOverride unit{.pattern = given.unit};
  if (given.zero) unit.preset = preset_of(*given.zero);
  if (given.layout) unit.layout = layout_of(*given.layout);
  if (given.reshard_after_forward)
    unit.reshard_after_forward = reshard_of(recipe, *given.reshard_after_forward);
  if (given.accumulate) unit.accumulate = accumulate_of(*given.accumulate);
  if (given.param_dtype) unit.param_dtype = dtype_of(*given.param_dtype);
  if (given.reduce_dtype) unit.reduce_dtype = dtype_of(*given.reduce_dtype);
  if (given.main_dtype) unit.main_dtype = dtype_of(*given.main_dtype);
  if (given.output_dtype) unit.output_dtype = dtype_of(*given.output_dtype);
  unit.cast_inputs = given.cast_inputs;
  if (given.wire) unit.wire = wire_of(*given.wire);
  return unit;
}

FoldOrder order_of(const Recipe& recipe) {
  switch (recipe.parallelism.dp.order) {
    case DpOrder::kFlat: return FoldOrder::kFlat;
    case DpOrder::kNested: return FoldOrder::kNested;
    case DpOrder::kAuto: break;
  }
  return recipe.run.deterministic ? FoldOrder::kFlat : FoldOrder::kNested;
}

}  // namespace

Policy dp_policy(const Recipe& recipe) {
  const ParallelismKeys& parallelism = recipe.parallelism;
  Policy policy;
  policy.preset = preset_of(parallelism.zero);
  policy.layout = layout_of(parallelism.dp.layout);
  policy.order = order_of(recipe);
  policy.accumulate = accumulate_of(parallelism.dp.accumulate);
  policy.optimizer_over_replicas = parallelism.optimizer_over_replicas;
  policy.reshard_after_forward = reshard_of(recipe, parallelism.reshard_after_forward);
  policy.grad_scale =
      parallelism.dp.grad_scale == DpGradScale::kMean ? GradScale::kMean : GradScale::kOne;
  policy.unused = parallelism.dp.unused == DpUnused::kStrict ? Unused::kStrict
                  : parallelism.dp.unused == DpUnused::kKeep ? Unused::kKeep
                                                             : Unused::kZero;
  policy.tie = parallelism.dp.tie == DpTie::kMergeUnits ? Tie::kMergeUnits : Tie::kError;
  policy.param_dtype = dtype_of(recipe.training.param_dtype);
  policy.reduce_dtype = dtype_of(recipe.training.reduce_dtype);
  policy.main_dtype = dtype_of(parallelism.dp.main_dtype);
  policy.output_dtype = dtype_of(parallelism.dp.output_dtype);
  policy.cast_inputs = parallelism.dp.cast_inputs;
  policy.prefetch_bytes = parallelism.dp.prefetch_bytes ? parallelism.dp.prefetch_bytes->value : -1;
  policy.unit_cap = parallelism.dp.unit_cap.value;
  policy.bucket_elements = parallelism.dp.bucket_elements.value_or(0);
  policy.num_buckets = parallelism.dp.num_buckets;
  policy.pad_for_bus = parallelism.dp.pad_for_bus;
  policy.compat = parallelism.dp.compat == DpCompat::kTorch      ? LayoutCompat::kTorch
                  : parallelism.dp.compat == DpCompat::kMegatron ? LayoutCompat::kMegatron
                                                                 : LayoutCompat::kSextant;
  policy.overlap_reduce = parallelism.dp.overlap_reduce;
  policy.overlap_param_gather = parallelism.dp.overlap_param_gather;
  policy.wire = wire_of(parallelism.dp.wire);
  const auto offloads = [&](const char* what) {
    const std::vector<std::string>& words = parallelism.dp.offload;
    return std::find(words.begin(), words.end(), what) != words.end();
  };
  policy.offload_params = offloads("param");
  policy.offload_grads = offloads("grad");
  if (offloads("optim") && !(policy.offload_params && policy.offload_grads)) {
    throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                                 .number = 36,
                                 .what = "optimizer state is offloaded, what it works on is not",
                                 .where = "parallelism.dp.offload",
                                 .rule = "the optimizer runs where masters and gradients lie",
                                 .next = "parallelism.dp.offload=[param,grad,optim]"});
  }
  policy.separate_comms = parallelism.dp.separate_comms;
  for (const DpOverride& unit : parallelism.dp.overrides)
    policy.overrides.push_back(override_of(recipe, unit));
  return policy;
}

RecomputePlan recompute_plan(const Recipe& recipe) {
  const ActivationCheckpointKeys& keys = recipe.activation_checkpoint;
  const auto chosen = [&](const char* op) {
    return keys.mode == RecomputeMode::kSelective &&
           (keys.ops.empty() || std::find(keys.ops.begin(), keys.ops.end(), op) != keys.ops.end());
  };
  return {.full = keys.mode == RecomputeMode::kFull,
          .attention_core = chosen("attn_core"),
          .mlp_activation = chosen("mlp_act"),
          .norms = chosen("norm"),
          .every = keys.every,
          .first = keys.first};
}

ArenaDebug arena_debug(const Recipe& recipe) {
  constexpr double kLongestDelay = 1e-3;  // seconds
  const auto on = [&](const char* word) {
    return std::find(recipe.comm.debug.begin(), recipe.comm.debug.end(), word) !=
           recipe.comm.debug.end();
  };
  return {.poison = on("poison"),
          .check = on("check"),
          .max_delay = on("delay") ? kLongestDelay : 0.0,
          .seed = recipe.run.seed};
}

}  // namespace sx
