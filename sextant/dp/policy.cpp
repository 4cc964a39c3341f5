#include "sextant/dp/policy.h"

#include <fmt/format.h>

#include <array>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::array<PresetRow, 5> kRows = {{
    //                          params  optimizer  microbatches          layout
    {Preset::kDdp, "ddp", false, false, Accumulate::kLocal, LayoutKind::kBucket},
    {Preset::kZero1, "zero1", false, true, Accumulate::kLocal, LayoutKind::kBucket},
    {Preset::kZero2, "zero2", false, true, Accumulate::kReduced, LayoutKind::kBucket},
    {Preset::kFsdp1, "fsdp1", true, true, Accumulate::kReduced, LayoutKind::kFlat},
    {Preset::kFsdp2, "fsdp2", true, true, Accumulate::kReduced, LayoutKind::kPerParam},
}};

}  // namespace

const PresetRow& preset_row(Preset preset) {
  for (const PresetRow& row : kRows) {
    if (row.preset == preset) return row;
  }
  SX_CHECK(false, "preset {}", static_cast<int>(preset));
}

bool shards_params(const Policy& policy, std::int64_t num_shards) {
  return num_shards > 1 && preset_row(policy.preset).params_sharded;
}

Accumulate accumulation(const Policy& policy, std::int64_t num_shards) {
  if (policy.accumulate != Accumulate::kAuto) return policy.accumulate;
  return num_shards == 1 ? Accumulate::kLocal : preset_row(policy.preset).accumulate;
}

std::optional<Preset> find_preset(const std::string& name) {
  for (const PresetRow& row : kRows) {
    if (name == row.name) return row.preset;
  }
  return std::nullopt;
}

std::vector<std::string> policy_faults(const Policy& policy, std::int64_t num_replicas,
                                       std::int64_t num_shards) {
  std::vector<std::string> faults;
  const PresetRow& row = preset_row(policy.preset);
  if (policy.optimizer_over_replicas && !row.optimizer_sharded) {
    faults.push_back(fmt::format(
        "optimizer_over_replicas with {}: its optimizer state is not sharded", row.name));
  }
  const auto check_layout = [&](const PresetRow& of, std::optional<LayoutKind> layout) {
    if (layout == LayoutKind::kBucketPlain && of.optimizer_sharded) {
      faults.push_back(
          fmt::format("layout bucket_plain with {}: it is not cut, only ddp can use it", of.name));
    }
  };
  check_layout(row, policy.layout);
  const auto check_reshard = [&](const Reshard& reshard) {
    if (reshard.kind != Reshard::Kind::kKeepShard) return;
    if (reshard.ways <= 1 || reshard.ways >= num_shards || num_shards % reshard.ways != 0) {
      faults.push_back(fmt::format(
          "reshard_after_forward = {}: a number between 1 and dp_shard = {} that divides it",
          reshard.ways, num_shards));
    }
  };
  check_reshard(policy.reshard_after_forward);
  for (const UnitOverride& unit : policy.overrides) {
    check_layout(preset_row(unit.preset.value_or(policy.preset)),
                 unit.layout.has_value() ? unit.layout : policy.layout);
    if (unit.reshard_after_forward) check_reshard(*unit.reshard_after_forward);
  }
  if (policy.offload_params || policy.offload_grads) {
    const auto check_offload = [&](const PresetRow& of) {
      if (!of.params_sharded || num_shards == 1) {
        faults.push_back(
            fmt::format("offload with {} on dp_shard = {}: only sharded parameters are offloaded",
                        of.name, num_shards));
      }
    };
    check_offload(row);
    for (const UnitOverride& unit : policy.overrides) {
      if (unit.preset) check_offload(preset_row(*unit.preset));
    }
    if (policy.optimizer_over_replicas || policy.compat != LayoutCompat::kSextant)
      faults.emplace_back("offload with optimizer_over_replicas or another compat than sextant");
  }
  const auto check_main = [&](std::optional<c10::ScalarType> dtype) {
    if (dtype && *dtype != c10::kFloat && *dtype != c10::kDouble) {
      faults.push_back(fmt::format("main_dtype {}: fp32 or fp64", c10::toString(*dtype)));
    }
  };
  check_main(policy.main_dtype);
  for (const UnitOverride& unit : policy.overrides) check_main(unit.main_dtype);
  if (policy.compat != LayoutCompat::kSextant && row.params_sharded &&
      policy.layout.value_or(row.layout) != LayoutKind::kFlat) {
    faults.push_back("compat with a sharded layout: flat only");
  }
  if (num_replicas < 1 || num_shards < 1) {
    faults.push_back(fmt::format("{} replicas of {} shards", num_replicas, num_shards));
  }
  return faults;
}

}  // namespace sx
