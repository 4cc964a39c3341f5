#include "sextant/plan/dp_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sextant/base/check.h"

namespace sx {
namespace {

struct Row {
  DpPreset preset;
  const char* name;
  bool params_sharded, optimizer_sharded, sum_local;
  LayoutKind layout;
};
constexpr std::array<Row, 5> kRows = {{
    {DpPreset::kDdp, "ddp", false, false, true, LayoutKind::kBucket},
    {DpPreset::kZero1, "zero1", false, true, true, LayoutKind::kBucket},
    {DpPreset::kZero2, "zero2", false, true, false, LayoutKind::kBucket},
    {DpPreset::kFsdp1, "fsdp1", true, true, false, LayoutKind::kFlat},
    {DpPreset::kFsdp2, "fsdp2", true, true, false, LayoutKind::kPerParam},
}};

const Row& row_of(DpPreset preset) { return kRows[static_cast<std::size_t>(preset)]; }

bool is_bucket(LayoutKind kind) {
  return kind == LayoutKind::kBucket || kind == LayoutKind::kBucketPlain;
}

LayoutOptions layout_options(const DpChoice& choice) {
  const Row& row = row_of(choice.preset);
  const ItemBytes& bytes = choice.bytes;
  LayoutOptions options{.kind = choice.layout.value_or(row.layout),
                        .degree = choice.num_shards,
                        .item_bytes = std::min({bytes.param, bytes.reduce, bytes.main}),
                        .compat = choice.compat,
                        .bucket_elements = choice.bucket_elements,
                        .block_elements = choice.block_elements};
  if (row.optimizer_sharded && choice.optimizer_over_replicas)
    options.degree *= choice.num_replicas;
  const bool replicated = !row.optimizer_sharded;
  if (replicated && !is_bucket(options.kind)) options.kind = LayoutKind::kFlat;
  SX_CHECK(options.kind != LayoutKind::kBucketPlain || replicated,
           "layout bucket_plain is not cut; {} needs cuts", row.name);
  return options;
}

/// One unit's own buffers.
void add_unit_buffers(DpPlan& plan, std::size_t unit, LayoutOptions options) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  if (is_bucket(options.kind)) options.bucket_elements = kNoLimit;
  const std::vector<UnitParam>& params = plan.units[unit].params;
  for (const auto& [first, last] : split_by_cap(params, options.item_bytes, plan.choice.unit_cap)) {
    const std::vector<UnitParam> part(params.begin() + static_cast<std::ptrdiff_t>(first),
                                      params.begin() + static_cast<std::ptrdiff_t>(last));
    LayoutOptions chosen = options;
    const bool free_choice = plan.choice.preset == DpPreset::kFsdp2 && !plan.choice.layout;
    if (free_choice && chosen.kind == LayoutKind::kPerParam) {
      // Without copies where that costs less than one percent of padding.
      chosen.kind = LayoutKind::kBlock;
      const UnitLayout tried(part, chosen);
      if (tried.padding() * 100 >= tried.num_elements()) chosen.kind = LayoutKind::kPerParam;
    }
    plan.buffers.push_back({plan.units[unit].name, UnitLayout(part, chosen), {unit}});
  }
}

/// Buckets over the parameters of all units.
void add_buckets(DpPlan& plan, const LayoutOptions& options) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  std::vector<UnitParam> all;
  std::vector<std::size_t> unit_of;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    for (const UnitParam& param : plan.units[u].params) {
      all.push_back(param);
      unit_of.push_back(u);
    }
  }
  const UnitLayout whole(all, options);
  LayoutOptions single = options;
  single.bucket_elements = kNoLimit;
  single.num_buckets = 0;
  for (std::size_t b = 0; b < whole.buckets().size(); ++b) {
    std::vector<std::size_t> members = whole.buckets()[b].params;
    std::sort(members.begin(), members.end());
    std::vector<UnitParam> params;
    std::set<std::size_t> units;
    for (const std::size_t i : members) {
      params.push_back(all[i]);
      units.insert(unit_of[i]);
    }
    plan.buffers.push_back({fmt::format("bucket {}", b),
                            UnitLayout(params, single),
                            {units.begin(), units.end()},
                            units.size()});
  }
}

}  // namespace

const char* to_string(DpPreset preset) { return row_of(preset).name; }

std::optional<DpPreset> parse_dp_preset(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.preset;
  }
  return std::nullopt;
}

std::vector<DpUnit> decoder_units(const ModelShape& shape) {
  std::vector<DpUnit> units;
  DpUnit last{.name = "root", .params = {}};
  for (const ParamInfo& info : inventory(shape)) {
    UnitParam param{.fqn = info.name, .shape = info.global_shape};
    const bool embedding = info.role == ParamRole::kEmbed || info.role == ParamRole::kPos;
    if (!embedding && info.layer_idx < 0) {
      last.params.push_back(std::move(param));
      continue;
    }
    const std::string name = embedding ? info.name.substr(0, info.name.rfind('.'))
                                       : fmt::format("layers.{}", info.layer_idx);
    if (units.empty() || units.back().name != name) units.push_back({.name = name, .params = {}});
    units.back().params.push_back(std::move(param));
  }
  units.push_back(std::move(last));
  return units;
}

std::int64_t DpPlan::chunk(const DpBuffer& buffer) const {
  // Replicated: the largest of the nearly equal parts that pass through the ranks.
  return (buffer.layout.gathered_numel() + choice.num_shards - 1) / choice.num_shards;
}

std::int64_t DpPlan::own(const DpBuffer& buffer) const {
  if (!optimizer_sharded) return buffer.layout.gathered_numel();
  return buffer.layout.shard_numel();
}

DpPlan make_dp_plan(std::vector<DpUnit> units, const DpChoice& choice,
                    const std::vector<std::pair<std::size_t, std::size_t>>& tied) {
  SX_CHECK(choice.num_replicas >= 1 && choice.num_shards >= 1 && choice.microbatches >= 1,
           "{} replicas of {} shards, {} microbatches", choice.num_replicas, choice.num_shards,
           choice.microbatches);
  const Row& row = row_of(choice.preset);
  DpPlan plan{.choice = choice,
              .params_sharded = row.params_sharded,
              .optimizer_sharded = row.optimizer_sharded,
              .sum_local = choice.sum == MicrobatchSum::kPreset
                               ? row.sum_local
                               : choice.sum == MicrobatchSum::kLocal,
              .units = std::move(units),
              .buffers = {},
              .reduce_order = {}};
  const LayoutOptions options = layout_options(choice);
  if (is_bucket(options.kind) && !plan.params_sharded) {
    add_buckets(plan, options);
  } else {
    for (std::size_t u = 0; u < plan.units.size(); ++u) add_unit_buffers(plan, u, options);
    std::reverse(plan.buffers.begin(), plan.buffers.end());
  }
  for (const auto& [owner, user] : tied) {
    for (DpBuffer& buffer : plan.buffers) {
      if (std::count(buffer.units.begin(), buffer.units.end(), owner) > 0 &&
          std::count(buffer.units.begin(), buffer.units.end(), user) == 0) {
        buffer.units.push_back(user);
      }
    }
  }
  // Last parameters first: backward completes them first.
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) plan.reduce_order.push_back(b);
  return plan;
}

}  // namespace sx
