// What follows from the keys that were given, and the rules that join several of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>

#include "sextant/base/env.h"
#include "sextant/base/thread_pool.h"
#include "sextant/recipe/builder.h"
#include "sextant/recipe/model_shape.h"
#include "sextant/shape/hf_config.h"

namespace sx {
namespace {

constexpr std::string_view kHfPrefix = "hf:";

/// Three weights such as "969,30,1", not all zero.
bool is_split(const std::string& text) {
  int parts = 0;
  double sum = 0;
  for (std::size_t at = 0; at <= text.size(); ++parts) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    if (part.empty() || part.find_first_not_of("0123456789.") != std::string::npos) return false;
    sum += std::strtod(part.c_str(), nullptr);
    at = comma + 1;
  }
  return parts == 3 && sum > 0;
}

int fault_number(const std::string& key) {
  if (key == "num_heads_kv") return 17;
  if (key == "num_heads" || key == "head_dim") return 13;
  return 3;
}

}  // namespace

/// The shape that model.preset names; empty when it has none (a fault then).
std::optional<ModelShape> RecipeBuilder::preset_shape() {
  const std::string& preset = recipe().model.preset;
  if (preset.starts_with(kHfPrefix)) {
    const std::string folder = preset.substr(kHfPrefix.size());
    auto config = read_hf_config(folder);
    if (config.ok()) return config->shape;
    const bool absent = config.error().kind == ErrorKind::kNotFound;
    fault(absent ? 7 : 41, config.error().message, "model.preset",
          absent ? "a Hugging Face folder has a config.json" : "config.json of " + folder);
    return std::nullopt;
  }
  auto shape = shape_preset(preset);
  if (!shape.ok()) {
    fault(3, fmt::format("model.preset = \"{}\" is not known", preset), "model.preset",
          shape.error().message);
    return std::nullopt;
  }
  if (shape->num_experts > 0) {
    fault(5, fmt::format("model.preset = \"{}\" needs experts", preset), "model.preset",
          "this version builds dense models");
    return std::nullopt;
  }
  return *shape;
}

void RecipeBuilder::resolve_model(const RecipeSources&) {
  ModelKeys& model = recipe().model;
  // Who starts from a model of Hugging Face and says nothing of sizes means that model's.
  if (model.preset.empty() && !given("model.hidden") &&
      recipe().checkpoint.load.starts_with(kHfPrefix)) {
    model.preset = recipe().checkpoint.load;
    derived("model.preset");
  }
  ModelShape base;
  // A resolved recipe has every key and does not need the folder again.
  const bool complete = given("model.num_layers") && given("model.hidden") &&
                        given("model.qk_norm") && given("model.rope_scaling.type");
  if (!model.preset.empty() && !(complete && model.preset.starts_with(kHfPrefix))) {
    const std::optional<ModelShape> preset = preset_shape();
    if (!preset) return;
    base = *preset;
    if (given("model.arch") && model.arch != to_string(base.arch)) {
      fault(4,
            fmt::format("model.arch = \"{}\" contradicts model.preset = \"{}\"", model.arch,
                        model.preset),
            "model.arch", fmt::format("the preset's arch is {}", to_string(base.arch)),
            "leave model.arch out");
    }
  } else {
    const auto arch = parse_arch(model.arch);
    base = defaults_for(arch.ok() ? *arch : Arch::kCustom);
  }

  const auto take = [&](const char* name, auto& field, auto value) {
    const std::string key = std::string("model.") + name;
    if (given(key)) return;
    field = value;
    derived(key);
  };
  const auto take_size = [&](const char* name, std::int64_t& field, std::int64_t value) {
    if (value > 0) take(name, field, value);
  };
  take("norm", model.norm, to_string(base.norm));
  take("activation", model.activation, to_string(base.activation));
  take("positions", model.positions, to_string(base.positions));
  take("qkv_bias", model.qkv_bias, base.qkv_bias);
  take("qk_norm", model.qk_norm, base.qk_norm);
  take("rope_scaling.type", model.rope_scaling.type, to_string(base.rope_scaling.kind));
  take("linear_bias", model.linear_bias, base.linear_bias);
  take("tie_embeddings", model.tie_embeddings, base.tie_embeddings);
  if (!model.preset.empty()) {
    take("arch", model.arch, to_string(base.arch));
    take("rope_theta", model.rope_theta, base.rope_theta);
    take("norm_eps", model.norm_eps, base.norm_eps);
  }
  if (base.rope_scaling.kind != RopeScalingKind::kNone) {
    RopeScalingKeys& scaling = model.rope_scaling;
    take("rope_scaling.factor", scaling.factor, base.rope_scaling.factor);
    take("rope_scaling.low_freq_factor", scaling.low_freq_factor,
         base.rope_scaling.low_freq_factor);
    take("rope_scaling.high_freq_factor", scaling.high_freq_factor,
         base.rope_scaling.high_freq_factor);
    take("rope_scaling.original_max_positions", scaling.original_max_positions,
         base.rope_scaling.original_max_positions);
  }
  if (base.vocab_size > 0 && model.preset.starts_with(kHfPrefix)) {
    take("vocab_size", model.vocab_size, base.vocab_size);
    take("init_std", model.init_std, base.init_std);
  }
  take_size("num_layers", model.num_layers, base.num_layers);
  take_size("hidden", model.hidden, base.hidden);
  take_size("ffn_hidden", model.ffn_hidden, base.ffn_hidden);
  take_size("num_heads", model.num_heads, base.num_heads);
  take_size("num_heads_kv", model.num_heads_kv, base.num_heads_kv);
  take_size("head_dim", model.head_dim, base.head_dim);
  take_size("max_positions", model.max_positions, base.max_positions);
  if (!model.preset.starts_with(kHfPrefix)) {  // whose weights may have a row per position
    take_size("max_positions", model.max_positions, recipe().training.seq_len);
  }
  if (model.num_layers == 0 || model.hidden == 0 || model.num_heads == 0) return;

  if (model.head_dim == 0 && model.hidden % model.num_heads != 0) {
    fault(13,
          fmt::format("model.hidden = {} is no multiple of model.num_heads = {}", model.hidden,
                      model.num_heads),
          "model.num_heads", "num_heads divides hidden, or model.head_dim is set");
    return;
  }
  ModelShape shape = to_model_shape(recipe(), model.vocab_size.value_or(1));
  derive_sizes(shape);
  if (!given("model.ffn_hidden")) take_size("ffn_hidden", model.ffn_hidden, shape.ffn_hidden);
  if (!given("model.num_heads_kv"))
    take_size("num_heads_kv", model.num_heads_kv, shape.num_heads_kv);
  if (!given("model.head_dim")) take_size("head_dim", model.head_dim, shape.head_dim);
  if (model.max_positions == 0) return;
  shape = to_model_shape(recipe(), model.vocab_size.value_or(1));
  for (const ShapeFault& one : shape.validate()) {
    fault(fault_number(one.key), "model." + one.what, "model." + one.key, one.rule);
  }
}

/// What a call that only evaluates may leave out.
void RecipeBuilder::resolve_evaluation() {
  Recipe& all = recipe();
  if (!given("training.steps") && !given("training.tokens")) {
    all.training.steps = 1;
    derived("training.steps");
    given_.insert("training.steps");
  }
  if (!given("training.seq_len") && all.model.max_positions > 0) {
    all.training.seq_len = std::min<std::int64_t>(all.model.max_positions, 1024);
    derived("training.seq_len");
    given_.insert("training.seq_len");
  }
  if (!given("metrics.eval_steps")) {
    all.metrics.eval_steps = 0;
    derived("metrics.eval_steps");
  }
}

/// dp_shard is what the other degrees leave of the ranks that a launcher has started.
void RecipeBuilder::take_launched_ranks() {
  ParallelismKeys& parallelism = recipe().parallelism;
  if (given("parallelism.dp_shard")) return;
  const auto facts = env::detect_launcher();
  if (!facts.ok() || facts->world_size <= 1) return;
  const std::int64_t others =
      parallelism.dp_replicate * parallelism.cp * parallelism.tp * parallelism.pp;
  if (facts->world_size % others != 0) return;
  parallelism.dp_shard = facts->world_size / others;
  derived("parallelism.dp_shard");
}

void RecipeBuilder::resolve_batches() {
  TrainingKeys& training = recipe().training;
  take_launched_ranks();
  const std::int64_t ranks = recipe().parallelism.data_ranks();
  const std::int64_t together = training.micro_batch_size * ranks;
  if (!given("training.global_batch_size")) {
    training.global_batch_size = together;
    derived("training.global_batch_size");
  } else if (training.global_batch_size % together != 0) {
    const std::int64_t up = (training.global_batch_size + together - 1) / together * together;
    fault(15,
          fmt::format("training.global_batch_size = {} is no multiple of micro_batch_size x "
                      "data-parallel ranks = {} x {}",
                      training.global_batch_size, training.micro_batch_size, ranks),
          "training.global_batch_size", "every rank runs the same number of microbatches",
          fmt::format("--set training.global_batch_size={}", up));
    return;
  }
  if (!given("training.seq_len")) return;

  const std::int64_t step_tokens = training.global_batch_size * training.seq_len;
  if (static_cast<double>(step_tokens) * static_cast<double>(training.steps) > 9e18) {
    fault(3, "the run has more tokens than fit 63 bits", "training.steps",
          "steps x global_batch_size x seq_len is below 9.2e18");
    return;
  }
  const std::int64_t needed = (training.tokens + step_tokens - 1) / step_tokens;
  if (!given("training.steps") && given("training.tokens")) {
    training.steps = needed;
    derived("training.steps");
  } else if (given("training.steps") && given("training.tokens") && training.steps != needed) {
    fault(4,
          fmt::format("training.steps = {} and training.tokens = {} contradict each other",
                      training.steps, training.tokens),
          "training.tokens",
          fmt::format("{} tokens are {} steps of {} tokens", training.tokens, needed, step_tokens),
          "leave one of the two out");
  } else if (given("training.steps") && !given("training.tokens")) {
    training.tokens = training.steps * step_tokens;
    derived("training.tokens");
  }
  if (recipe().model.max_positions > 0 && training.seq_len > recipe().model.max_positions) {
    fault(3,
          fmt::format("training.seq_len = {} is longer than model.max_positions = {}",
                      training.seq_len, recipe().model.max_positions),
          "training.seq_len", "a sequence fits the model's positions",
          fmt::format("--set model.max_positions={}", training.seq_len));
  }
}

void RecipeBuilder::resolve_schedule() {
  LrSchedulerKeys& schedule = recipe().lr_scheduler;
  const std::int64_t steps = recipe().training.steps;
  if (steps == 0) return;
  if (schedule.warmup_steps > steps) {
    fault(3,
          fmt::format("lr_scheduler.warmup_steps = {} is more than training.steps = {}",
                      schedule.warmup_steps, steps),
          "lr_scheduler.warmup_steps", "the warm-up ends inside the run",
          fmt::format("--set lr_scheduler.warmup_steps={}", steps / 10));
    return;
  }
  if (given("lr_scheduler.decay_steps")) return;
  const auto stable =
      static_cast<std::int64_t>(std::llround(schedule.stable_ratio * static_cast<double>(steps)));
  schedule.decay_steps = std::max<std::int64_t>(0, steps - schedule.warmup_steps - stable);
  derived("lr_scheduler.decay_steps");
}

void RecipeBuilder::resolve_rest(const RecipeSources& sources) {
  Recipe& all = recipe();
  if (!given("run.name")) {
    const std::string stem = std::filesystem::path(sources.path).stem().string();
    all.run.name = !stem.empty() ? stem : !sources.preset.empty() ? sources.preset : "run";
    derived("run.name");
  }
  if (!given("run.threads")) {
    all.run.threads = static_cast<std::int64_t>(usable_cores());
    derived("run.threads");
  }
  if (!given("data.workers")) {
    all.data.workers = 1;
    derived("data.workers");
  }
  if (!given("data.shuffle_seed")) {
    all.data.shuffle_seed = all.run.seed;
    derived("data.shuffle_seed");
  }
  if (!given("data.inter_document_masking")) {
    all.data.inter_document_masking = all.data.mode == DataMode::kNative;
    derived("data.inter_document_masking");
  }
  if (!all.data.paths.empty() && !all.data.blend.empty()) {
    fault(4, "data.paths and data.blend are both given", "data.blend",
          "paths with weights are data.blend, without them data.paths");
  }
  if (!given("checkpoint.dir")) {
    all.checkpoint.dir = "${run}/ckpt";
    derived("checkpoint.dir");
  }
  // Mode megatron reads splits as Megatron-LM does, in more forms; opening the data says what is wrong.
  if (all.data.mode == DataMode::kNative && !is_split(all.data.split)) {
    fault(3, fmt::format("data.split = \"{}\" is no split", all.data.split), "data.split",
          "three weights, training, validation, test, such as \"969,30,1\"");
  }
  const LossScaleKeys& loss_scale = all.training.loss_scale;
  if (loss_scale.initial < loss_scale.min) {
    fault(3,
          fmt::format("training.loss_scale.initial = {} is below training.loss_scale.min = {}",
                      loss_scale.initial, loss_scale.min),
          "training.loss_scale.initial", "the scale never falls below its minimum",
          fmt::format("--set training.loss_scale.min={}", loss_scale.initial));
  }
  if (all.comm.transport == TransportKind::kSolo && all.parallelism.data_ranks() > 1) {
    fault(10,
          fmt::format("comm.transport = \"solo\" has one rank, parallelism asks for {}",
                      all.parallelism.data_ranks()),
          "comm.transport", "world size = product of the parallel degrees",
          "--set comm.transport=threads");
  }
}

void RecipeBuilder::require(const RecipeSources& sources) {
  const auto needed = [&](const char* group) {
    const auto& groups = sources.required_groups;
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  const auto missing = [&](const std::string& what, const std::string& rule,
                           const std::string& next) {
    const std::string where = !sources.path.empty()     ? sources.path
                              : !sources.preset.empty() ? "preset " + sources.preset
                                                        : "no recipe was given";
    loaded_.faults.push_back({.exit = ExitCode::kUser,
                              .number = 25,
                              .what = what,
                              .where = where,
                              .rule = rule,
                              .next = next});
  };
  if (needed("model")) {
    for (const char* key : {"model.num_layers", "model.hidden", "model.num_heads"}) {
      if (loaded_.recipe.unset_.contains(key)) {
        missing(fmt::format("{} is not set", key),
                "a model has sizes, its own or those of model.preset", "--preset tiny");
      }
    }
  }
  if (needed("training")) {
    if (loaded_.recipe.unset_.contains("training.seq_len")) {
      missing("training.seq_len is not set", "a run says how long its sequences are",
              "--set training.seq_len=1024");
    }
    if (!given("training.steps") && !given("training.tokens")) {
      missing("neither training.steps nor training.tokens is set", "a run says how long it trains",
              "--set training.steps=1000");
    }
  }
  if (needed("data") && recipe().data.paths.empty() && recipe().data.blend.empty() &&
      !sources.only_evaluates) {
    missing("data.paths is empty", "prefixes of .bin/.idx pairs, or \"demo\"",
            "--set data.paths=demo");
  }
}

void RecipeBuilder::resolve(const RecipeSources& sources) {
  const bool clean = loaded_.faults.empty();
  resolve_model(sources);
  if (sources.only_evaluates) resolve_evaluation();
  resolve_batches();
  resolve_schedule();
  resolve_rest(sources);
  if (clean) require(sources);
}

}  // namespace sx
