#include "sextant/plan/dp_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

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
                        .num_buckets = choice.num_buckets,
                        .pad_for_bus = choice.pad_for_bus,
                        .block_elements = choice.block_elements};
  if (row.optimizer_sharded && choice.optimizer_over_replicas)
    options.degree *= choice.num_replicas;
  const bool uncut = !row.optimizer_sharded || options.degree == 1;
  if (uncut && !is_bucket(options.kind)) options.kind = LayoutKind::kFlat;
  SX_CHECK(options.kind != LayoutKind::kBucketPlain || !row.optimizer_sharded,
           "layout bucket_plain is not cut; {} needs cuts", row.name);
  return options;
}

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

/// One unit's own buffers.
void add_unit_buffers(DpPlan& plan, std::size_t unit, const DpChoice& choice,
                      LayoutOptions options) {
  if (is_bucket(options.kind)) {
    options.bucket_elements = kNoLimit;
    options.num_buckets = 0;
  }
  const std::vector<UnitParam>& params = plan.units[unit].params;
  for (const auto& [first, last] : split_by_cap(params, options.item_bytes, choice.unit_cap)) {
    const std::vector<UnitParam> part(params.begin() + static_cast<std::ptrdiff_t>(first),
                                      params.begin() + static_cast<std::ptrdiff_t>(last));
    LayoutOptions chosen = options;
    const bool free_choice = choice.preset == DpPreset::kFsdp2 && !choice.layout;
    if (free_choice && chosen.kind == LayoutKind::kPerParam) {
      // Without copies where that costs less than one percent of padding.
      chosen.kind = LayoutKind::kBlock;
      const UnitLayout tried(part, chosen);
      if (tried.padding() * 100 >= tried.num_elements()) chosen.kind = LayoutKind::kPerParam;
    }
    plan.buffers.push_back({plan.units[unit].name, UnitLayout(part, chosen), {unit}, choice});
  }
}

/// Buckets over the parameters of units with equal choices.
void add_buckets(DpPlan& plan, const std::vector<std::size_t>& members, const DpChoice& choice,
                 const LayoutOptions& options) {
  std::vector<UnitParam> all;
  std::vector<std::size_t> unit_of;
  for (const std::size_t u : members) {
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
    std::vector<std::size_t> inside = whole.buckets()[b].params;
    std::sort(inside.begin(), inside.end());
    std::vector<UnitParam> params;
    std::set<std::size_t> units;
    for (const std::size_t i : inside) {
      params.push_back(all[i]);
      units.insert(unit_of[i]);
    }
    plan.buffers.push_back({fmt::format("bucket {}", b),
                            UnitLayout(params, single),
                            {units.begin(), units.end()},
                            choice});
  }
}

/// Last parameters first: backward completes them first.
void sort_by_last_parameter(DpPlan& plan) {
  std::map<std::string, std::size_t> number;
  for (const DpUnit& unit : plan.units) {
    for (const UnitParam& param : unit.params) number.emplace(param.fqn, number.size());
  }
  const auto last = [&](const DpBuffer& buffer) {
    std::size_t most = 0;
    for (const UnitParam& param : buffer.layout.params())
      most = std::max(most, number.at(param.fqn));
    return most;
  };
  std::stable_sort(plan.buffers.begin(), plan.buffers.end(),
                   [&](const DpBuffer& a, const DpBuffer& b) { return last(a) > last(b); });
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

bool params_sharded(const DpChoice& choice) {
  return choice.num_shards > 1 && row_of(choice.preset).params_sharded;
}

bool optimizer_sharded(const DpChoice& choice) { return row_of(choice.preset).optimizer_sharded; }

bool sums_locally(const DpChoice& choice) {
  if (choice.sum != MicrobatchSum::kPreset) return choice.sum == MicrobatchSum::kLocal;
  return choice.num_shards == 1 || row_of(choice.preset).sum_local;
}

std::int64_t DpBuffer::chunk() const {
  // Replicated: the largest of the nearly equal parts that pass through the ranks.
  return (layout.gathered_numel() + choice.num_shards - 1) / choice.num_shards;
}

std::int64_t DpBuffer::own() const {
  return optimizer_sharded(choice) ? layout.shard_numel() : layout.gathered_numel();
}

DpChoice choice_of(const DpChoice& choice, const std::string& unit) {
  DpChoice own = choice;
  own.overrides.clear();
  for (const DpUnitChoice& each : choice.overrides) {
    if (fnmatch(each.pattern.c_str(), unit.c_str(), 0) != 0) continue;
    if (each.preset) {
      own.preset = *each.preset;
      own.layout = each.layout;
    } else if (each.layout) {
      own.layout = each.layout;
    }
    if (each.release) {
      own.release = *each.release;
      own.keep_ways = each.keep_ways;
      own.keep_bytes = each.keep_bytes;
    }
    own.sum = each.sum.value_or(own.sum);
    own.a2a_wire = each.a2a_wire.value_or(own.a2a_wire);
    own.bytes.main = each.main_bytes.value_or(own.bytes.main);
    if (each.main_bytes) own.bytes.moments = 2 * own.bytes.main;
    own.bytes.param = each.param_bytes.value_or(own.bytes.param);
    own.bytes.reduce = each.reduce_bytes.value_or(own.bytes.reduce);
  }
  return own;
}

DpPlan make_dp_plan(std::vector<DpUnit> units, const DpChoice& choice,
                    const std::vector<std::pair<std::size_t, std::size_t>>& tied) {
  SX_CHECK(choice.num_replicas >= 1 && choice.num_shards >= 1 && choice.microbatches >= 1,
           "{} replicas of {} shards, {} microbatches", choice.num_replicas, choice.num_shards,
           choice.microbatches);
  DpPlan plan{.choice = choice, .units = std::move(units), .buffers = {}};
  // Units whose replicated parameters share buckets, by what the engine tells buckets apart by.
  using Key = std::tuple<DpPreset, LayoutKind, std::int64_t, std::int64_t, std::int64_t,
                         MicrobatchSum, bool>;
  std::map<Key, std::vector<std::size_t>> shared;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const DpChoice own = choice_of(choice, plan.units[u].name);
    const LayoutOptions options = layout_options(own);
    if (is_bucket(options.kind) && !params_sharded(own)) {
      shared[{own.preset, options.kind, own.bytes.param, own.bytes.reduce, own.bytes.main, own.sum,
              own.a2a_wire}]
          .push_back(u);
    } else {
      add_unit_buffers(plan, u, own, options);
    }
  }
  for (const auto& [key, members] : shared) {
    const DpChoice own = choice_of(choice, plan.units[members.front()].name);
    add_buckets(plan, members, own, layout_options(own));
  }
  sort_by_last_parameter(plan);
  for (const auto& [owner, user] : tied) {
    for (DpBuffer& buffer : plan.buffers) {
      if (std::count(buffer.units.begin(), buffer.units.end(), owner) > 0 &&
          std::count(buffer.units.begin(), buffer.units.end(), user) == 0) {
        buffer.units.push_back(user);
      }
    }
  }
  return plan;
}

DpPlan make_decoder_plan(const ModelShape& shape, const DpChoice& choice) {
  std::vector<DpUnit> units = decoder_units(shape);
  std::vector<std::pair<std::size_t, std::size_t>> tied;
  if (shape.tie_embeddings) tied.emplace_back(0, units.size() - 1);
  return make_dp_plan(std::move(units), choice, tied);
}

}  // namespace sx
