#include "sextant/train/memory_plan.h"

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/train/dp_policy.h"
#include "sextant/train/model_setup.h"

namespace sx {
namespace {

std::int64_t size_of(c10::ScalarType dtype) {
  return static_cast<std::int64_t>(c10::elementSize(dtype));
}

DpPreset preset_of(Preset preset) {
  const auto found = parse_dp_preset(preset_row(preset).name);
  SX_CHECK(found.has_value(), "the planner does not know preset {}", preset_row(preset).name);
  return *found;
}

Release release_of(const Reshard& reshard, bool after_backward) {
  if (!after_backward) return Release::kAfterStep;
  switch (reshard.kind) {
    case Reshard::Kind::kAuto:
    case Reshard::Kind::kAlways: return Release::kAfterUse;
    case Reshard::Kind::kNever: return Release::kAfterBackward;
    case Reshard::Kind::kKeepShard: return Release::kKeepShard;
    case Reshard::Kind::kFits: return Release::kFits;
  }
  return Release::kAfterUse;
}

MicrobatchSum sum_of(Accumulate accumulate) {
  switch (accumulate) {
    case Accumulate::kAuto: return MicrobatchSum::kPreset;
    case Accumulate::kLocal: return MicrobatchSum::kLocal;
    case Accumulate::kReduced: return MicrobatchSum::kReduced;
  }
  return MicrobatchSum::kPreset;
}

ItemBytes bytes_of(const Policy& policy, c10::ScalarType dtype) {
  ItemBytes bytes;
  bytes.param = size_of(policy.param_dtype.value_or(dtype));
  bytes.main =
      size_of(policy.main_dtype.value_or(dtype == c10::kDouble ? c10::kDouble : c10::kFloat));
  bytes.reduce = policy.reduce_dtype ? size_of(*policy.reduce_dtype) : bytes.main;
  bytes.moments = 2 * bytes.main;
  return bytes;
}

DpUnitChoice override_of(const UnitOverride& each, const Policy& policy) {
  DpUnitChoice out{.pattern = each.pattern, .layout = each.layout};
  if (each.preset) out.preset = preset_of(*each.preset);
  if (each.reshard_after_forward) {
    out.release = release_of(*each.reshard_after_forward, policy.reshard_after_backward);
    out.keep_ways = each.reshard_after_forward->ways;
    out.keep_bytes = each.reshard_after_forward->keep_bytes;
  }
  if (each.param_dtype) out.param_bytes = size_of(*each.param_dtype);
  if (each.reduce_dtype) out.reduce_bytes = size_of(*each.reduce_dtype);
  if (each.main_dtype) out.main_bytes = size_of(*each.main_dtype);
  if (each.accumulate) out.sum = sum_of(*each.accumulate);
  if (each.wire) out.a2a_wire = *each.wire == ReduceWire::kA2aFp32;
  return out;
}

}  // namespace

DpChoice dp_choice(const Policy& policy, std::int64_t num_replicas, std::int64_t num_shards,
                   std::int64_t microbatches, c10::ScalarType dtype) {
  DpChoice choice{
      .preset = preset_of(policy.preset),
      .num_replicas = num_replicas,
      .num_shards = num_shards,
      .layout = policy.layout,
      .compat = policy.compat,
      .bytes = bytes_of(policy, dtype),
      .microbatches = microbatches,
      .sum = sum_of(policy.accumulate),
      .release = release_of(policy.reshard_after_forward, policy.reshard_after_backward),
      .keep_ways = policy.reshard_after_forward.ways,
      .keep_bytes = policy.reshard_after_forward.keep_bytes,
      .optimizer_over_replicas = policy.optimizer_over_replicas,
      .flat_order = policy.order == FoldOrder::kFlat,
      .a2a_wire = policy.wire == ReduceWire::kA2aFp32,
      .overlap_reduce = policy.overlap_reduce,
      .overlap_param_gather = policy.overlap_param_gather,
      .prefetch_bytes = policy.prefetch_bytes,
      .unit_cap = policy.unit_cap,
      .bucket_elements = policy.bucket_elements,
      .num_buckets = policy.num_buckets,
      .pad_for_bus = policy.pad_for_bus,
      .block_elements = policy.block_elements};
  for (const UnitOverride& each : policy.overrides)
    choice.overrides.push_back(override_of(each, policy));
  return choice;
}

DpMemory predict_rank_memory(const Recipe& recipe, const ModelShape& shape) {
  const TrainingKeys& keys = recipe.training;
  const c10::ScalarType dtype = param_dtype(keys.dtype);
  const std::int64_t microbatches = std::max<std::int64_t>(
      1, keys.global_batch_size / (keys.micro_batch_size * recipe.parallelism.data_ranks()));
  const DpChoice choice = dp_choice(dp_policy(recipe), recipe.parallelism.dp_replicate,
                                    recipe.parallelism.dp_shard.value_or(1), microbatches, dtype);
  const std::optional<c10::ScalarType> compute = decoder_options(keys.dtype).compute_dtype;
  const RecomputePlan recompute = recompute_plan(recipe);
  const TapeOptions options{.batch = keys.micro_batch_size,
                            .seq_len = keys.seq_len,
                            .param_bytes = choice.bytes.param,
                            .compute_bytes = compute ? size_of(*compute) : choice.bytes.param,
                            .cut_rows = true,
                            .recompute = {.full = recompute.full,
                                          .attention_core = recompute.attention_core,
                                          .mlp_activation = recompute.mlp_activation,
                                          .norms = recompute.norms,
                                          .every = recompute.every,
                                          .first = recompute.first}};
  return predict_memory(make_decoder_plan(shape, choice), decoder_tape(shape, options));
}

}  // namespace sx
