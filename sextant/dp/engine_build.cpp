// How a model becomes units and buffers: which parameters lie together, in which layout, and that
// all ranks mean the same.
#include <fmt/format.h>
#include <fnmatch.h>

#include <ATen/ops/full.h>

#include <algorithm>
#include <map>
#include <set>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/hash.h"
#include "sextant/dp/engine.h"
#include "sextant/tensor/init.h"
#include "sextant/tensor/storage.h"

namespace sx {
namespace {

constexpr std::int64_t kAlignBytes = 128;

[[noreturn]] void refuse(std::string what, std::string where, std::string rule, std::string next) {
  throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                               .number = 36,
                               .what = std::move(what),
                               .where = std::move(where),
                               .rule = std::move(rule),
                               .next = std::move(next)});
}

std::int64_t item_bytes(const BufferDtypes& dtypes) {
  return static_cast<std::int64_t>(
      std::min({c10::elementSize(dtypes.param), c10::elementSize(dtypes.reduce),
                c10::elementSize(dtypes.main)}));
}

std::vector<UnitParam> unit_params(const std::vector<Parameter*>& parameters) {
  std::vector<UnitParam> out;
  for (const Parameter* parameter : parameters)
    out.push_back({.fqn = parameter->fqn, .shape = parameter->shape});
  return out;
}

}  // namespace

Engine::Engine(Module& root, DataComms& comms, Policy policy, c10::ScalarType dtype,
               std::shared_ptr<Arena> arena)
    : root_(root),
      comms_(comms),
      policy_(std::move(policy)),
      arena_(arena ? std::move(arena) : Arena::make()) {
  const std::vector<std::string> faults =
      policy_faults(policy_, comms_.num_replicas(), comms_.num_shards());
  if (!faults.empty()) {
    refuse(faults.front(), "parallelism.dp", "the choices of data parallelism must go together",
           "sextant train --help-recipe");
  }
  if (policy_.offload_params || policy_.offload_grads) {
    const ArenaDebug& debug = arena_->debug();
    store_ = Arena::make(debug);
    offload_ = std::make_unique<OffloadQueue>(debug.max_delay, debug.seed);
  }
  parameters_ = root_.parameters();
  build_units();
  build_buffers(dtype);
  decide_what_fits();
  verify_ranks();
  add_hooks();
}

Engine::~Engine() {
  abort_iteration();
  root_.remove_hooks("dp");
  for (const Unit& unit : units_) unit.module->set_casts(std::nullopt, std::nullopt);
  hooks_.reset();
  for (Parameter* parameter : parameters_) detach_memory(parameter->tensor, parameter->fqn);
}

void Engine::build_units() {
  for (Module* module : root_.units()) {
    Unit unit{.module = module, .name = module->fqn().empty() ? "root" : module->fqn()};
    units_.push_back(std::move(unit));
  }
}

Policy Engine::policy_of(const Module* unit) const {
  Policy policy = policy_;
  if (unit == nullptr) {
    // Nothing says when it is used: its parameters are always there.
    if (shards_params(policy, comms_.num_shards())) {
      policy.preset = Preset::kZero2;
      policy.layout = LayoutKind::kFlat;
    }
    return policy;
  }
  const std::string name = unit->fqn().empty() ? "root" : unit->fqn();
  for (const UnitOverride& each : policy_.overrides) {
    if (fnmatch(each.pattern.c_str(), name.c_str(), 0) != 0) continue;
    if (each.preset) policy.preset = *each.preset;
    if (each.preset && !each.layout) policy.layout.reset();
    if (each.layout) policy.layout = each.layout;
    if (each.reshard_after_forward) policy.reshard_after_forward = *each.reshard_after_forward;
    if (each.param_dtype) policy.param_dtype = each.param_dtype;
    if (each.accumulate) policy.accumulate = *each.accumulate;
    if (each.reduce_dtype) policy.reduce_dtype = each.reduce_dtype;
    if (each.main_dtype) policy.main_dtype = each.main_dtype;
    if (each.output_dtype) policy.output_dtype = each.output_dtype;
    if (each.cast_inputs) policy.cast_inputs = *each.cast_inputs;
    if (each.wire) policy.wire = *each.wire;
  }
  return policy;
}

void Engine::build_buffers(c10::ScalarType dtype) {
  // One group per unit (or, for buckets of replicated parameters, per set of equal choices), dtype
  // and trainability, in order of registration.
  struct Group {
    std::string name;
    Policy policy;
    BufferDtypes dtypes;
    bool trainable = true;
    std::vector<Parameter*> parameters;
  };
  std::vector<Group> groups;
  std::map<std::string, std::size_t> index;
  const std::vector<Module*> units = root_.units_of_parameters();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter* parameter = parameters_[i];
    Group group{.policy = policy_of(units[i]), .trainable = parameter->trainable};
    const c10::ScalarType declared = parameter->dtype.value_or(dtype);
    const bool floating = c10::isFloatingType(declared);
    SX_CHECK(floating || !parameter->trainable, "{} is {} and trainable", parameter->fqn,
             c10::toString(declared));
    group.dtypes.param = floating && !parameter->dtype.has_value()
                             ? group.policy.param_dtype.value_or(declared)
                             : declared;
    group.dtypes.main =
        !group.trainable ? group.dtypes.param
                         : group.policy.main_dtype.value_or(declared == c10::kDouble ? c10::kDouble
                                                                                     : c10::kFloat);
    group.dtypes.reduce =
        group.trainable ? group.policy.reduce_dtype.value_or(group.dtypes.main) : group.dtypes.main;
    const bool sharded = shards_params(group.policy, comms_.num_shards());
    group.name = units[i] == nullptr       ? "(outside units)"
                 : units[i]->fqn().empty() ? "root"
                                           : units[i]->fqn();
    const LayoutKind kind = group.policy.layout.value_or(preset_row(group.policy.preset).layout);
    const bool buckets =
        !sharded && (kind == LayoutKind::kBucket || kind == LayoutKind::kBucketPlain);
    if (buckets) group.name = "model";
    const std::string key =
        fmt::format("{}/{}/{}/{}/{}/{}/{}/{}/{}", group.name, static_cast<int>(group.dtypes.param),
                    static_cast<int>(group.dtypes.main), static_cast<int>(group.dtypes.reduce),
                    group.trainable, static_cast<int>(group.policy.preset), static_cast<int>(kind),
                    static_cast<int>(group.policy.accumulate), static_cast<int>(group.policy.wire));
    const auto [at, fresh] = index.emplace(key, groups.size());
    if (fresh) groups.push_back(std::move(group));
    groups[at->second].parameters.push_back(parameter);
  }
  std::map<std::string, int> uses;
  for (const Group& group : groups) ++uses[group.name];
  std::map<std::string, int> seen;
  for (const Group& group : groups) {
    const int n = seen[group.name]++;
    add_buffers(uses[group.name] > 1 ? fmt::format("{} [{}]", group.name, n) : group.name,
                group.parameters, group.policy, group.dtypes, group.trainable);
  }
  // Where each parameter lies, and which units touch each buffer.
  places_.resize(parameters_.size());
  std::map<const Parameter*, std::size_t> number;
  for (std::size_t i = 0; i < parameters_.size(); ++i) number[parameters_[i]] = i;
  std::map<const Module*, std::size_t> unit_number;
  for (std::size_t u = 0; u < units_.size(); ++u) unit_number[units_[u].module] = u;
  std::vector<std::set<std::size_t>> users(buffers_.size());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const std::vector<Parameter*>& own = buffers_[b].memory->parameters();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t p = number.at(own[i]);
      places_[p] = {b, i};
      if (units[p] != nullptr) users[b].insert(unit_number.at(units[p]));
    }
  }
  for (const ParameterAlias& alias : root_.aliases()) {
    const std::size_t p = number.at(alias.parameter);
    const Module* user = root_.unit_of(*alias.module);
    if (user == units[p]) continue;
    Buffer& buffer = buffers_[places_[p].buffer];
    if (buffer.memory->params_sharded() && policy_.tie == Tie::kError) {
      refuse(
          fmt::format("{} and {} are one parameter in two units", alias.parameter->fqn, alias.fqn),
          "parallelism.dp.tie", "a sharded parameter belongs to one unit, which gathers it",
          "parallelism.dp.tie=merge_units, or model.tie_embeddings=false");
    }
    if (user != nullptr) users[places_[p].buffer].insert(unit_number.at(user));
  }
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    buffers_[b].units.assign(users[b].begin(), users[b].end());
    for (const std::size_t u : users[b]) units_[u].buffers.push_back(b);
  }
  // Reductions in one order on every rank, whatever order gradients come in: last parameters first.
  const auto last_parameter = [&](std::size_t b) {
    std::size_t last = 0;
    for (const Parameter* parameter : buffers_[b].memory->parameters())
      last = std::max(last, number.at(parameter));
    return last;
  };
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].memory->trainable()) reduce_order_.push_back(b);
  }
  std::stable_sort(reduce_order_.begin(), reduce_order_.end(), [&](std::size_t a, std::size_t b) {
    return last_parameter(a) > last_parameter(b);
  });
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const OwnedPart& part = buffers_[places_[p].buffer].memory->owned()[places_[p].index];
    if (parameters_[p]->trainable) {
      trainable_.push_back(p);
      owned_.push_back(part);
    } else {
      frozen_.push_back(part);
    }
  }
  updates_.assign(owned_.size(), true);
}

void Engine::add_buffers(const std::string& name, const std::vector<Parameter*>& parameters,
                         const Policy& policy, const BufferDtypes& dtypes, bool trainable) {
  const PresetRow& row = preset_row(policy.preset);
  const std::int64_t shards = comms_.num_shards();
  LayoutOptions options{.kind = policy.layout.value_or(row.layout),
                        .degree = shards,
                        .item_bytes = item_bytes(dtypes),
                        .align_bytes = kAlignBytes,
                        .compat = policy.compat,
                        .bucket_elements = policy.bucket_elements,
                        .num_buckets = policy.num_buckets,
                        .pad_for_bus = policy.pad_for_bus,
                        .block_elements = policy.block_elements};
  const bool sharded = shards_params(policy, shards);
  const bool cut = sharded || (row.optimizer_sharded && trainable);
  if (cut && trainable && policy.optimizer_over_replicas) options.degree *= comms_.num_replicas();
  const bool uncut_layout = options.kind == LayoutKind::kPerParam ||
                            options.kind == LayoutKind::kBlock ||
                            options.kind == LayoutKind::kTensor;
  if ((!cut || options.degree == 1) && uncut_layout) options.kind = LayoutKind::kFlat;
  const bool buckets =
      options.kind == LayoutKind::kBucket || options.kind == LayoutKind::kBucketPlain;
  if (sharded && buckets) {
    // A unit is its own bucket.
    options.bucket_elements = std::int64_t{1} << 60;
    options.num_buckets = 0;
  }
  std::vector<std::vector<Parameter*>> parts;
  if (buckets && !sharded) {
    // Buckets of the whole list become buffers of their own.
    const UnitLayout whole(unit_params(parameters), options);
    for (const LayoutBucket& bucket : whole.buckets()) {
      std::vector<std::size_t> members = bucket.params;
      std::sort(members.begin(), members.end());
      parts.emplace_back();
      for (const std::size_t i : members) parts.back().push_back(parameters[i]);
    }
    options.bucket_elements = std::int64_t{1} << 60;
    options.num_buckets = 0;
  } else {
    for (const auto& [first, last] :
         split_by_cap(unit_params(parameters), options.item_bytes, policy.unit_cap)) {
      parts.emplace_back(parameters.begin() + static_cast<std::ptrdiff_t>(first),
                         parameters.begin() + static_cast<std::ptrdiff_t>(last));
    }
  }
  for (std::size_t n = 0; n < parts.size(); ++n) {
    LayoutOptions chosen = options;
    if (policy.preset == Preset::kFsdp2 && !policy.layout && chosen.kind == LayoutKind::kPerParam) {
      // Without copies where that costs less than one percent of padding.
      LayoutOptions block = chosen;
      block.kind = LayoutKind::kBlock;
      const UnitLayout tried(unit_params(parts[n]), block);
      if (tried.padding() * 100 < tried.num_elements()) chosen = block;
    }
    auto layout = std::make_shared<const UnitLayout>(unit_params(parts[n]), chosen);
    const std::string full_name = parts.size() == 1     ? name
                                  : buckets && !sharded ? fmt::format("{} bucket {}", name, n)
                                                        : fmt::format("{} part {}", name, n);
    Buffer buffer;
    buffer.memory = std::make_unique<UnitBuffer>(UnitBuffer::Setup{.name = full_name,
                                                                   .parameters = parts[n],
                                                                   .layout = std::move(layout),
                                                                   .policy = policy,
                                                                   .dtypes = dtypes,
                                                                   .trainable = trainable,
                                                                   .store = store_,
                                                                   .offload = offload_.get()},
                                                 comms_, arena_);
    buffers_.push_back(std::move(buffer));
  }
}

/// Reshard "fits": from the last unit back while the budget lasts; and how far ahead gathers go.
void Engine::decide_what_fits() {
  std::int64_t kept = 0, largest = 0;
  for (std::size_t u = units_.size(); u-- > 0;) {
    std::int64_t bytes = 0;
    std::int64_t budget = 0;
    for (const std::size_t b : units_[u].buffers) {
      const UnitBuffer& memory = *buffers_[b].memory;
      if (!memory.params_sharded()) continue;
      bytes += memory.gathered_bytes();
      budget = memory.policy().reshard_after_forward.keep_bytes;
    }
    any_sharded_ = any_sharded_ || bytes > 0;
    largest = std::max(largest, bytes);
    units_[u].keep_fits = kept + bytes <= budget;
    if (units_[u].keep_fits) kept += bytes;
  }
  prefetch_budget_ = policy_.prefetch_bytes < 0 ? 2 * largest : policy_.prefetch_bytes;
  for (const Unit& unit : units_) {
    for (const std::size_t b : unit.buffers) {
      const Reshard& reshard = buffers_[b].memory->policy().reshard_after_forward;
      if (buffers_[b].memory->params_sharded() && reshard.kind == Reshard::Kind::kKeepShard)
        (void)comms_.neighbours(reshard.ways);
    }
  }
}

/// Names, shapes, dtypes and layouts as one number that all ranks must agree on.
void Engine::verify_ranks() {
  std::string text;
  for (const Buffer& buffer : buffers_) {
    const UnitBuffer& memory = *buffer.memory;
    text += fmt::format("{} {} {} {} {}\n", memory.name(), static_cast<int>(memory.dtypes().param),
                        static_cast<int>(memory.dtypes().reduce),
                        static_cast<int>(memory.dtypes().main), memory.trainable());
    text += fmt::format("{} of {}\n", to_string(memory.layout().options().kind),
                        memory.layout().gathered_numel());
    for (const Parameter* parameter : memory.parameters())
      text += fmt::format("  {} [{}]\n", parameter->fqn, fmt::join(parameter->shape, " "));
  }
  const auto own = static_cast<std::int64_t>(xxh64(text) >> 1);
  at::Tensor bounds = at::full({2}, own, at::kLong);
  bounds[1].neg_();
  comms_.world().start_all_reduce(bounds, ReduceOp::kMax, {.unit = "parameter list"}).wait();
  SX_CHECK(bounds[0].item<std::int64_t>() == own && bounds[1].item<std::int64_t>() == -own,
           "ranks differ in names, shapes, dtypes or layout of the parameters (coord {})",
           comms_.world().coord());
}

void Engine::add_hooks() {
  std::vector<Parameter*> trainable;
  for (const std::size_t p : trainable_) trainable.push_back(parameters_[p]);
  hooks_ = std::make_unique<GradHooks>(trainable, [this](std::size_t i, const at::Tensor& fresh) {
    const Place place = places_[trainable_[i]];
    Buffer& buffer = buffers_[place.buffer];
    SX_CHECK(!buffer.complete, "the gradient of {} came after its unit's backward had ended",
             parameters_[trainable_[i]]->fqn);
    buffer.memory->take(place.index, fresh);
  });
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Module& module = *units_[u].module;
    const Policy policy = policy_of(&module);
    module.set_casts(policy.cast_inputs ? policy.param_dtype : std::nullopt, policy.output_dtype);
    module.add_hook(HookPoint::kPreForward, "dp",
                    [this, u](Module&, const at::Tensor&) { pre_forward(u); });
    module.add_hook(HookPoint::kPostForward, "dp", [this, u](Module&, const at::Tensor& output) {
      post_forward(u, output.requires_grad());
    });
    module.add_hook(HookPoint::kPreBackward, "dp",
                    [this, u](Module&, const at::Tensor&) { pre_backward(u); });
    module.add_hook(HookPoint::kPostBackward, "dp",
                    [this, u](Module&, const at::Tensor&) { post_backward(u); });
  }
}

void Engine::init_parameters(std::uint64_t seed) {
  for (const std::vector<OwnedPart>* parts : {&owned_, &frozen_}) {
    for (const OwnedPart& part : *parts) {
      Parameter& parameter = *part.parameter;
      const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
      at::Tensor values = part.master.narrow(0, 0, part.end - part.begin);
      if (values.numel() > 0) {
        fill_init(values, parameter.init, seed, parameter.fqn,
                  rows == 0 ? 0 : parameter.numel() / rows, part.begin);
      }
      parameter.initialized = true;
    }
  }
  publish();
}

}  // namespace sx
