#include "sextant/recipe/key_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  double low = -kInfinity;
  double high = kInfinity;
  bool low_open = false;
  bool high_open = false;

  bool holds(double x) const {
    return (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high);
  }
  std::string to_string() const {
    std::string at_low = fmt::format("{} {}", low_open ? "above" : "at least", low);
    if (low != -kInfinity && high == kInfinity) return at_low;
    if (low == -kInfinity) return "";
    return fmt::format("{}{} to {}{}", low_open ? "above " : "", low, high_open ? "below " : "",
                       high);
  }
};
constexpr Range kPositive{.low = 1};
constexpr Range kNotNegative{.low = 0};

/// What a row of the table may say beyond the field itself.
struct Row {
  Range range = {};
  std::vector<std::string> words = {};  ///< closed list of a string field
  std::vector<std::string> aliases = {};
  bool cosmetic = false;
  bool resumable = false;
  bool may_be_auto = false;
  bool required = false;
  bool path = false;
  std::string default_value = {};  ///< printed instead of the field's initial value
};

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::optional<std::int64_t>>)
    return "int";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "int (64 bits, unsigned)";
  if constexpr (std::is_same_v<T, double>) return "float";
  if constexpr (std::is_same_v<T, std::string>) return "string";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "list of strings";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "list of int";
  if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, std::optional<Bytes>>) return "bytes";
  if constexpr (std::is_same_v<T, Switch>) return "bool, int or word";
  if constexpr (std::is_same_v<T, Seconds>) return "duration";
  if constexpr (std::is_same_v<T, SaveInterval>) return "steps or duration";
  if constexpr (std::is_same_v<T, std::vector<DpOverride>>) return "list of {unit, ...}";
  if constexpr (std::is_same_v<T, std::vector<BlendPart>>) return "list of {path, weight}";
  return "";
}

std::string quoted(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  return text;
}

bool in_range(const Range& range, const Json& canonical) {
  if (canonical.is_array()) {
    for (const Json& item : canonical) {
      if (!in_range(range, item)) return false;
    }
    return true;
  }
  const auto number = as_number(canonical);
  return !number || range.holds(*number);
}

template <class T>
bool in_range(const Range& range, const T& value, const Json& canonical) {
  if constexpr (std::is_same_v<T, SaveInterval>) return value.steps >= 0;
  return in_range(range, canonical);
}

template <class T>
KeySpec make_key(std::string name, std::string text, Row row, T& (*access)(Recipe&),
                 const T& (*look)(const Recipe&)) {
  KeySpec key;
  key.name = std::move(name);
  key.text = std::move(text);
  key.aliases = std::move(row.aliases);
  key.cosmetic = row.cosmetic;
  key.resumable = row.resumable;
  key.required = row.required;
  key.path = row.path;
  key.may_be_auto = row.may_be_auto || std::is_same_v<T, std::optional<std::int64_t>> ||
                    std::is_same_v<T, std::optional<Bytes>>;
  key.range = row.range.to_string();
  key.read = [look](const Recipe& recipe) {
    const T& value = look(recipe);
    if constexpr (std::is_enum_v<T>) {
      return Json(to_word(value));
    } else {
      return write_value(value);
    }
  };

  if constexpr (std::is_enum_v<T>) {
    const std::vector<std::string> words(EnumWords<T>::kWords.begin(), EnumWords<T>::kWords.end());
    key.type = "one of " + quoted(words);
    key.expects = key.type;
    key.write = [access, words](Recipe& recipe, const Json& json) {
      if (!json.is_string()) return KeySpec::Write::kWrongType;
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == json.get_ref<const std::string&>()) {
          access(recipe) = static_cast<T>(i);
          return KeySpec::Write::kOk;
        }
      }
      return KeySpec::Write::kOutOfRange;
    };
  } else {
    const bool list = std::is_same_v<T, std::vector<std::string>>;
    key.type = row.words.empty()           ? type_name<T>()
               : list                      ? "list of " + quoted(row.words)
               : std::is_same_v<T, Switch> ? "bool, int or one of " + quoted(row.words)
                                           : "one of " + quoted(row.words);
    key.expects = row.words.empty() ? expected(T{}) : key.type;
    if (!key.range.empty()) key.expects += ", " + key.range;
    key.write = [access, range = row.range, words = row.words](Recipe& recipe, const Json& json) {
      T value{};
      if (!read_value(json, value)) return KeySpec::Write::kWrongType;
      const Json canonical = write_value(value);
      if (!in_range(range, value, canonical)) return KeySpec::Write::kOutOfRange;
      if constexpr (std::is_same_v<T, Switch>) {
        const bool word = canonical.is_string();
        bool known = !word;
        for (const std::string& each : words) known = known || each == value.text;
        if (!known) return KeySpec::Write::kOutOfRange;
      }
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        for (const std::string& item : value) {
          bool known = words.empty();
          for (const std::string& each : words) known = known || each == item;
          if (!known) return KeySpec::Write::kOutOfRange;
        }
      }
      if constexpr (std::is_same_v<T, std::string>) {
        bool known = words.empty();
        for (const std::string& word : words) known = known || word == value;
        if (!known) return KeySpec::Write::kOutOfRange;
      }
      access(recipe) = std::move(value);
      return KeySpec::Write::kOk;
    };
  }
  key.raw_text = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>> ||
                 std::is_enum_v<T>;
  if (key.may_be_auto && key.type.find("auto") == std::string::npos) key.type += " or \"auto\"";
  if (!row.default_value.empty()) {
    key.default_value = row.default_value;
  } else {
    const Recipe defaults;
    key.default_value = key.required ? "none" : key.read(defaults).dump();
  }
  return key;
}

#define SX_KEY(field, text, ...)                                                             \
  make_key<std::remove_cvref_t<decltype(std::declval<Recipe&>().field)>>(                    \
      #field, text, Row{__VA_ARGS__}, [](Recipe & recipe) -> auto& { return recipe.field; }, \
      [](const Recipe& recipe) -> auto& { return recipe.field; })

void add_run(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(run.name, "name of the run, part of the default run folder",
                        .cosmetic = true, .default_value = "the recipe's or preset's name"));
  keys.push_back(SX_KEY(run.seed, "seed of every random stream"));
  keys.push_back(SX_KEY(run.threads, "worker threads; results do not depend on it",
                        .range = {.low = 1, .high = 4096}, .cosmetic = true, .may_be_auto = true,
                        .default_value = "\"auto\" (usable cores)"));
  keys.push_back(SX_KEY(run.deterministic, "the same bits in every run"));
  keys.push_back(SX_KEY(run.flush_denormals, "treat denormal floats as zero"));
  keys.push_back(SX_KEY(log.level, "lowest level that is written", .cosmetic = true));
}

void add_model(std::vector<KeySpec>& keys) {
  const std::string by_arch = "by arch";
  keys.push_back(SX_KEY(model.preset,
                        "a known shape the other model keys start from, or hf:DIR: that of a "
                        "Hugging Face folder"));
  keys.push_back(SX_KEY(model.arch, "family; only chooses defaults",
                        .words = {"llama", "gpt2", "qwen2", "qwen3", "custom"}));
  keys.push_back(SX_KEY(model.num_layers, "transformer layers", .range = kPositive,
                        .required = true, .default_value = "from model.preset"));
  keys.push_back(SX_KEY(model.hidden, "width of the residual stream", .range = kPositive,
                        .required = true, .default_value = "from model.preset"));
  keys.push_back(SX_KEY(
      model.ffn_hidden, "width inside the feed-forward block", .range = kPositive,
      .may_be_auto = true, .required = true,
      .default_value = "\"auto\" (gated: 8/3 hidden up to a multiple of 32, else 4 hidden)"));
  keys.push_back(SX_KEY(model.num_heads, "attention heads", .range = kPositive, .required = true,
                        .default_value = "from model.preset"));
  keys.push_back(SX_KEY(model.num_heads_kv,
                        "heads of keys and values; fewer than num_heads = grouped queries",
                        .range = kPositive, .may_be_auto = true, .required = true,
                        .default_value = "\"auto\" (num_heads)"));
  keys.push_back(SX_KEY(model.head_dim, "width of a head", .range = kPositive, .may_be_auto = true,
                        .required = true, .default_value = "\"auto\" (hidden / num_heads)"));
  keys.push_back(SX_KEY(model.vocab_size, "tokens the model knows; \"auto\" = the tokenizer's",
                        .range = kPositive));
  keys.push_back(SX_KEY(model.vocab_pad_to, "rows of embedding and head are a multiple of this",
                        .range = kPositive));
  keys.push_back(SX_KEY(model.max_positions, "longest sequence", .range = kPositive,
                        .may_be_auto = true, .required = true,
                        .default_value = "\"auto\" (training.seq_len)"));
  keys.push_back(
      SX_KEY(model.norm, "normalisation", .words = {"rms", "layer"}, .default_value = by_arch));
  keys.push_back(SX_KEY(model.norm_eps, "added to the variance",
                        .range = {.low = 0, .high = 1, .low_open = true}));
  keys.push_back(SX_KEY(model.activation, "feed-forward activation; swiglu and geglu are gated",
                        .words = {"swiglu", "geglu", "gelu_tanh", "gelu", "relu"},
                        .default_value = by_arch));
  keys.push_back(SX_KEY(model.rope_theta, "base of the rotary angles", .range = {.low = 1}));
  keys.push_back(SX_KEY(model.rope_scaling.type,
                        "how rotary frequencies are stretched for longer contexts",
                        .words = {"none", "linear", "llama3"}, .default_value = by_arch));
  keys.push_back(
      SX_KEY(model.rope_scaling.factor, "stretch of the slow frequencies", .range = {.low = 1}));
  keys.push_back(SX_KEY(model.rope_scaling.low_freq_factor,
                        "llama3: turns in the original context below which all of it is applied",
                        .range = {.low = 0, .low_open = true}));
  keys.push_back(SX_KEY(model.rope_scaling.high_freq_factor,
                        "llama3: turns in the original context above which none of it is applied",
                        .range = {.low = 0, .low_open = true}));
  keys.push_back(SX_KEY(model.rope_scaling.original_max_positions,
                        "llama3: context the model was first trained with", .range = kPositive));
  keys.push_back(
      SX_KEY(model.qk_norm, "RMS norm of each head's query and key", .default_value = by_arch));
  keys.push_back(SX_KEY(model.qkv_bias, "bias in the query, key and value projections",
                        .default_value = by_arch));
  keys.push_back(
      SX_KEY(model.linear_bias, "bias in the other projections", .default_value = by_arch));
  keys.push_back(SX_KEY(model.positions, "how positions enter",
                        .words = {"rope", "learned", "none"}, .default_value = by_arch));
  keys.push_back(
      SX_KEY(model.tie_embeddings, "output head = input embedding", .default_value = by_arch));
  keys.push_back(SX_KEY(model.init_std, "standard deviation of the initial weights",
                        .range = {.low = 0, .low_open = true}));
}

void add_optimization(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(optimizer.name, "optimizer", .words = {"adamw"}));
  keys.push_back(SX_KEY(optimizer.lr, "highest learning rate", .range = kNotNegative));
  keys.push_back(SX_KEY(optimizer.beta1, "decay of the first moment",
                        .range = {.low = 0, .high = 1, .high_open = true}));
  keys.push_back(SX_KEY(optimizer.beta2, "decay of the second moment",
                        .range = {.low = 0, .high = 1, .high_open = true}));
  keys.push_back(SX_KEY(optimizer.eps, "added to the root of the second moment",
                        .range = {.low = 0, .low_open = true}));
  keys.push_back(SX_KEY(optimizer.weight_decay, "decoupled weight decay", .range = kNotNegative));
  keys.push_back(SX_KEY(optimizer.decay_norm_and_bias, "decay also vectors (norms, biases)"));

  keys.push_back(
      SX_KEY(lr_scheduler.warmup_steps, "steps of linear warm-up", .range = kNotNegative));
  keys.push_back(
      SX_KEY(lr_scheduler.decay, "form of the decay", .aliases = {"lr_scheduler.decay_type"}));
  keys.push_back(SX_KEY(lr_scheduler.decay_steps, "steps of the decay", .range = kNotNegative,
                        .resumable = true, .may_be_auto = true,
                        .default_value = "\"auto\" (all steps behind warm-up and stable part)"));
  keys.push_back(SX_KEY(lr_scheduler.min_ratio, "last learning rate / highest",
                        .range = {.low = 0, .high = 1},
                        .aliases = {"lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"}));
  keys.push_back(SX_KEY(lr_scheduler.stable_ratio,
                        "share of the steps at the highest rate between warm-up and decay",
                        .range = {.low = 0, .high = 1}));
}

void add_dp(std::vector<KeySpec>& keys) {
  keys.push_back(
      SX_KEY(parallelism.dp.layout,
             "how a unit's parameters share a buffer; \"auto\" = that of parallelism.zero",
             .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.order,
                        "gradients are summed in one fold over all ranks, or over dp_shard, then "
                        "dp_replicate; \"auto\" = flat if run.deterministic, else nested",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.accumulate,
                        "microbatches are summed before the ranks (local) or after (reduced); "
                        "\"auto\" = that of parallelism.zero",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.grad_scale,
                        "one: the loss is divided by all tokens; mean: gradients by the ranks too",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.main_dtype,
                        "of masters and main gradients; \"auto\" = fp32, fp64 for fp64 parameters",
                        .resumable = true));
  keys.push_back(
      SX_KEY(parallelism.dp.output_dtype,
             "a unit's output is cast to it; \"auto\" = as it was computed; a loss stays",
             .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.cast_inputs,
                        "a unit's input is cast to training.param_dtype where that is given",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.unused,
                        "a parameter without a gradient: zero, an error, or left as it is",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.tie,
                        "a sharded parameter of two units: an error, or both gather it",
                        .resumable = true));
  keys.push_back(
      SX_KEY(parallelism.dp.prefetch_bytes,
             "gathered parameters held at a time, those fetched ahead included; 0 = none "
             "ahead",
             .resumable = true, .default_value = "\"auto\" (two units)"));
  keys.push_back(SX_KEY(parallelism.dp.unit_cap, "larger units get several buffers",
                        .range = kPositive, .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.bucket_elements, "elements at which a bucket closes",
                        .range = kPositive, .resumable = true,
                        .default_value = "\"auto\" (the larger of 40,000,000 and 1,000,000 x "
                                         "dp_shard)"));
  keys.push_back(SX_KEY(parallelism.dp.num_buckets, "about this many buckets instead; 0 = by size",
                        .range = kNotNegative, .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.pad_for_bus, "buckets end at multiples of 65,536 elements",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.overlap_reduce, "reduce a unit while the next goes backward",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.overlap_param_gather,
                        "gather updated parameters during the next forward", .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.wire,
                        "16-bit gradients: by the transport's sum, or exchanged and summed in fp32",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.separate_comms,
                        "gathers and reductions have communicators of their own",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.offload,
                        "sharded masters, main gradients and, with both, optimizer state lie in a "
                        "store beside the memory that computes",
                        .words = {"param", "grad", "optim"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.dp.compat, "whose rules of buckets and alignment are used",
                        .resumable = true));
  keys.push_back(SX_KEY(
      parallelism.dp.overrides,
      "units whose name matches the shell pattern `unit` (\"layers.*\", \"root\") and what differs "
      "there: zero, layout, reshard_after_forward, accumulate, param_dtype, reduce_dtype, "
      "main_dtype, output_dtype, cast_inputs, wire; later entries win",
      .resumable = true));

  keys.push_back(SX_KEY(activation_checkpoint.mode,
                        "what backward computes again instead of keeping it: nothing, some "
                        "operations, whole blocks",
                        .resumable = true));
  keys.push_back(SX_KEY(activation_checkpoint.every, "only every n-th block", .range = kPositive,
                        .resumable = true));
  keys.push_back(SX_KEY(activation_checkpoint.first, "only the first n blocks; 0 = all",
                        .range = kNotNegative, .resumable = true));
  keys.push_back(SX_KEY(activation_checkpoint.ops,
                        "operations of mode \"selective\"; empty = all of them",
                        .words = {"attn_core", "mlp_act", "norm"}, .resumable = true));
}

void add_training(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(training.steps, "optimizer steps; give this or training.tokens",
                        .range = {.low = 1, .high = 1e12}, .resumable = true, .required = true));
  keys.push_back(SX_KEY(training.tokens, "tokens to train on, instead of training.steps",
                        .range = kPositive, .resumable = true, .required = true));
  keys.push_back(SX_KEY(training.seq_len, "tokens in a sequence",
                        .range = {.low = 1, .high = 1 << 24}, .required = true));
  keys.push_back(SX_KEY(training.micro_batch_size,
                        "sequences in one forward and backward pass of a rank",
                        .range = {.low = 1, .high = 1 << 20},
                        .aliases = {"training.local_batch_size"}, .resumable = true));
  keys.push_back(SX_KEY(training.global_batch_size, "sequences in an optimizer step over all ranks",
                        .range = {.low = 1, .high = 1 << 24}, .may_be_auto = true, .required = true,
                        .default_value = "\"auto\" (micro_batch_size x dp_replicate x dp_shard)"));
  keys.push_back(SX_KEY(training.grad_clip, "largest norm of the gradient; 0 = no clipping",
                        .range = kNotNegative, .aliases = {"training.max_norm"}));
  keys.push_back(SX_KEY(training.dtype, "type of the computation",
                        .aliases = {"training.mixed_precision_param"}));
  keys.push_back(SX_KEY(training.param_dtype,
                        "parameters are gathered and kept in; \"auto\" = fp32, fp64 for fp64"));
  keys.push_back(SX_KEY(training.reduce_dtype,
                        "gradients are sent in; \"auto\" = parallelism.dp.main_dtype",
                        .aliases = {"training.mixed_precision_reduce"}));
  keys.push_back(SX_KEY(training.loss_scale.initial, "fp16: factor of the loss at the start",
                        .range = {.low = 0, .low_open = true}));
  keys.push_back(SX_KEY(training.loss_scale.min,
                        "fp16: smallest factor; gradients that overflow even so are not finite",
                        .range = {.low = 0, .low_open = true}));
  keys.push_back(SX_KEY(training.loss_scale.growth,
                        "fp16: what the factor grows by; 1 with backoff = 1 keeps it",
                        .range = {.low = 1}));
  keys.push_back(SX_KEY(training.loss_scale.backoff, "fp16: what it shrinks by at an overflow",
                        .range = {.low = 0, .high = 1, .low_open = true}));
  keys.push_back(SX_KEY(training.loss_scale.growth_interval,
                        "fp16: steps without an overflow before it grows", .range = kPositive));
  keys.push_back(SX_KEY(training.loss_scale.hysteresis,
                        "fp16: steps with an overflow before it shrinks", .range = kPositive));
  keys.push_back(
      SX_KEY(training.nonfinite,
             "at a loss or gradient that is not finite: stop (exit 7) or skip the step"));
  keys.push_back(
      SX_KEY(training.max_skip_steps,
             "most steps \"skip\" may skip in a row before the run stops; 0 = any number",
             .range = kNotNegative));
  keys.push_back(SX_KEY(parallelism.dp_replicate, "copies of the model that share each batch",
                        .range = {.low = 1, .high = 4096},
                        .aliases = {"parallelism.data_parallel_replicate_degree"},
                        .resumable = true));
  const Range degree{.low = 1, .high = 1 << 20};
  keys.push_back(
      SX_KEY(parallelism.dp_shard,
             "ranks a copy of the model is sharded over; \"auto\" = what the other degrees leave",
             .range = degree, .aliases = {"parallelism.data_parallel_shard_degree"},
             .resumable = true, .default_value = "\"auto\" (ranks / the other degrees)"));
  keys.push_back(SX_KEY(parallelism.cp, "ranks that share a sequence", .range = degree,
                        .aliases = {"parallelism.context_parallel_degree"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.tp, "ranks that share each matrix", .range = degree,
                        .aliases = {"parallelism.tensor_parallel_degree"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.pp, "stages of the pipeline", .range = degree,
                        .aliases = {"parallelism.pipeline_parallel_degree"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.ep, "groups the experts are spread over", .range = degree,
                        .aliases = {"parallelism.expert_parallel_degree"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.etp, "ranks that share each expert's matrices", .range = degree,
                        .aliases = {"parallelism.expert_tensor_parallel_degree"},
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.rank_order,
                        "which axes join neighbouring ranks: \"default\", leftmost fastest as in "
                        "\"tp-cp-ep-dp-pp\", or last fastest as in \"pp,dp,cp,tp\"",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.topology,
                        "file that says which ranks share a node and an island, or \"auto\"",
                        .cosmetic = true, .path = true));
  keys.push_back(SX_KEY(parallelism.zero,
                        "what is sharded over dp_shard: nothing (ddp), optimizer state (zero1), "
                        "gradients too (zero2), parameters too (fsdp1 flat, fsdp2 by parameter)",
                        .resumable = true));
  keys.push_back(SX_KEY(parallelism.reshard_after_forward,
                        "give a unit's gathered parameters back between forward and backward; a "
                        "number: keep them within groups of so many ranks; \"fits\": keep what "
                        "fits; \"auto\": true, but for the last unit",
                        .words = {"auto", "fits"},
                        .aliases = {"parallelism.fsdp_reshard_after_forward"}, .resumable = true));
  keys.push_back(SX_KEY(parallelism.optimizer_over_replicas,
                        "shard optimizer state over dp_replicate too", .resumable = true));
  add_dp(keys);

  keys.push_back(SX_KEY(checkpoint.dir, "folder of the checkpoints",
                        .aliases = {"checkpoint.folder"}, .cosmetic = true, .path = true,
                        .default_value = "\"${run}/ckpt\""));
  keys.push_back(SX_KEY(checkpoint.interval, "distance of two saves; 0 = only at the end",
                        .resumable = true, .default_value = "\"0 steps\""));
  keys.push_back(SX_KEY(checkpoint.keep, "newest checkpoints that are kept", .range = kPositive,
                        .resumable = true));
  keys.push_back(SX_KEY(checkpoint.keep_every, "steps whose multiples are kept for good; 0 = none",
                        .range = kNotNegative, .resumable = true));
  keys.push_back(
      SX_KEY(checkpoint.async,
             "write from a copy in memory while training goes on; false: training waits, "
             "and a kill repeats at most one interval",
             .resumable = true));
  keys.push_back(SX_KEY(checkpoint.load,
                        "\"latest\", \"none\", the path of a checkpoint, or hf:DIR: weights of a "
                        "Hugging Face folder",
                        .resumable = true, .path = true));
  keys.push_back(SX_KEY(checkpoint.load_strict,
                        "false: tensors of the model or of the checkpoint alone are logged and "
                        "passed over",
                        .resumable = true));
  keys.push_back(SX_KEY(checkpoint.load_exclude,
                        "shell patterns of tensors that keep their initial values; logged",
                        .resumable = true));
  keys.push_back(SX_KEY(checkpoint.stop_deadline, "longest save after a request to stop",
                        .range = {.low = 0, .low_open = true}, .resumable = true));
  keys.push_back(SX_KEY(checkpoint.export_hf,
                        "at the end write the model as a folder of Hugging Face too: hf in the run",
                        .resumable = true));
  keys.push_back(SX_KEY(checkpoint.export_dtype,
                        "type of the exported weights; \"auto\" = as the checkpoint has them",
                        .resumable = true));
}

void add_inputs(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(
      data.paths, "prefixes of .bin/.idx pairs, text files, or \"demo\" for the built-in text",
      .path = true));
  keys.push_back(SX_KEY(data.blend,
                        "instead of data.paths: tables {path, weight} or pairs [weight, path]",
                        .path = true));
  keys.push_back(SX_KEY(data.eval_paths,
                        "held-out data as in data.paths; empty = the second part of data.split",
                        .path = true));
  keys.push_back(SX_KEY(data.split, "weights of training, validation and test documents"));
  keys.push_back(SX_KEY(data.workers, "loader threads; results do not depend on it",
                        .range = {.low = 0, .high = 1024}, .cosmetic = true, .may_be_auto = true,
                        .default_value = "\"auto\" (1)"));
  keys.push_back(SX_KEY(data.shuffle_seed, "seed of the order; \"run.seed\" = that key's value",
                        .default_value = "\"run.seed\""));
  keys.push_back(SX_KEY(data.mode, "which order samples come in: Sextant's, or Megatron-LM's"));
  keys.push_back(
      SX_KEY(data.cache_dir,
             "mode megatron: folder of index caches; empty = PREFIX/cache/GPTDataset_indices",
             .cosmetic = true, .path = true));
  keys.push_back(SX_KEY(data.surplus,
                        "mode megatron: share of samples a blend asks its members for beyond need",
                        .range = kNotNegative));
  keys.push_back(
      SX_KEY(data.megatron_fma,
             "mode megatron: the blend of builds that round product and difference once"));
  keys.push_back(SX_KEY(data.eod_mask, "no loss where the input ends a document"));
  keys.push_back(SX_KEY(data.reset_positions, "positions restart behind an end of document"));
  keys.push_back(SX_KEY(data.reset_attention, "attention stays between ends of documents"));
  keys.push_back(SX_KEY(data.inter_document_masking,
                        "attention and positions stay inside documents, by the index's borders",
                        .may_be_auto = true, .default_value = "\"auto\" (true in mode native)"));
  keys.push_back(SX_KEY(data.fim_rate, "share of documents rewritten to fill in the middle",
                        .range = {.low = 0, .high = 1}));
  keys.push_back(SX_KEY(data.fim_spm_rate, "share of those with the suffix first",
                        .range = {.low = 0, .high = 1}));
  keys.push_back(SX_KEY(data.lookahead_batches, "batches read ahead; results do not depend on it",
                        .range = {.low = 1, .high = 1 << 16}, .cosmetic = true));
  keys.push_back(SX_KEY(data.stall_timeout, "longest wait for a batch", .cosmetic = true));
  keys.push_back(SX_KEY(data.allow_change,
                        "go on although the data are not those of the checkpoint",
                        .resumable = true));

  keys.push_back(SX_KEY(tokenizer.path, "vocabulary: a folder or a file", .path = true));
  keys.push_back(SX_KEY(tokenizer.kind, "its format; \"bytes\" needs no file"));
  keys.push_back(SX_KEY(tokenizer.pattern,
                        "how text is split before merging; \"auto\" = as the vocabulary says"));
  keys.push_back(
      SX_KEY(tokenizer.special,
             "special tokens inside documents: plain text, taken as tokens, or a fault"));
  keys.push_back(
      SX_KEY(tokenizer.invalid, "bytes that are not UTF-8: kept, one U+FFFD a part, or a fault"));
  keys.push_back(SX_KEY(tokenizer.cache_slots,
                        "pieces whose tokens a thread remembers; results do not depend on it",
                        .range = {.low = 0, .high = 1 << 26}, .cosmetic = true));
  keys.push_back(
      SX_KEY(tokenizer.train_memory,
             "bytes of counts before they go to disk; the vocabulary does not depend on it",
             .cosmetic = true, .default_value = "\"auto\" (half of what is free)"));
  keys.push_back(SX_KEY(tokenizer.vocab_size, "tokens a trained vocabulary gets",
                        .range = {.low = 256, .high = 1 << 24}, .required = true));
  keys.push_back(
      SX_KEY(tokenizer.min_frequency, "a pair seen less often is not merged", .range = kPositive));
  keys.push_back(SX_KEY(tokenizer.max_token_length, "longest token in bytes",
                        .range = {.low = 2, .high = 1 << 16}));
}

void add_outputs(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(metrics.log_every, "steps between two logged ones; the first 10 always are",
                        .range = kPositive, .aliases = {"metrics.log_freq"}, .cosmetic = true));
  keys.push_back(SX_KEY(metrics.jsonl, "write metrics.jsonl", .cosmetic = true));
  keys.push_back(SX_KEY(metrics.tensorboard, "write TensorBoard events",
                        .aliases = {"metrics.enable_tensorboard"}, .cosmetic = true));
  keys.push_back(SX_KEY(metrics.eval_every, "steps between evaluations; 0 = only at the end",
                        .range = kNotNegative, .cosmetic = true));
  keys.push_back(SX_KEY(metrics.eval_steps, "global batches of an evaluation; 0 = the whole split",
                        .range = kNotNegative, .cosmetic = true));
  keys.push_back(
      SX_KEY(comm.transport,
             "how ranks talk; \"auto\" = mpi under mpirun, tcp under torchrun, Slurm and "
             "sextant launch, else threads of this process",
             .resumable = true));
  keys.push_back(SX_KEY(comm.init_timeout, "longest wait until all ranks have come together",
                        .range = {.low = 0, .low_open = true}, .resumable = true));
  keys.push_back(SX_KEY(comm.debug,
                        "find mistakes in buffers: fill reused ones with NaN, wait at random, look "
                        "for late writes",
                        .words = {"poison", "delay", "check"}, .cosmetic = true));
  keys.push_back(SX_KEY(comm.timeout, "longest wait for another rank",
                        .range = {.low = 0, .low_open = true}, .resumable = true));
  keys.push_back(SX_KEY(comm.first_timeout, "the same during a rank's first step",
                        .range = {.low = 0, .low_open = true}, .resumable = true));
  keys.push_back(SX_KEY(comm.flight_records,
                        "calls of a rank that its flight record keeps for after a failure",
                        .range = {.low = 16, .high = 1 << 24}, .cosmetic = true));
  keys.push_back(SX_KEY(comm.threads_progress,
                        "who moves started calls of rank threads on: \"wait\" = ranks that wait, "
                        "\"thread\" = also a thread of its own, for cores to spare",
                        .resumable = true));
}

void add_crawl(std::vector<KeySpec>& keys) {
  keys.push_back(SX_KEY(crawl.inputs, "archives: paths, patterns, @list.txt", .path = true));
  keys.push_back(SX_KEY(crawl.dump, "name of the crawl, written to every document"));
  keys.push_back(SX_KEY(crawl.select.types, "WARC record types that are taken"));
  keys.push_back(SX_KEY(crawl.select.mime, "payload types that are taken"));
  keys.push_back(SX_KEY(crawl.select.status, "HTTP status codes that are taken",
                        .range = {.low = 100, .high = 999}));
  keys.push_back(SX_KEY(crawl.max_payload, "larger payloads are counted and left out, never cut",
                        .range = kPositive));
  keys.push_back(SX_KEY(crawl.charset.order,
                        "who names a page's encoding, in this order; what nobody names is UTF-8",
                        .words = {"bom", "http", "meta", "utf8", "detect"}));
  keys.push_back(SX_KEY(crawl.charset.extra,
                        "detection may name UTF-32, IBM855, EUC-TW, Johab and ISO-2022-KR too"));
  keys.push_back(SX_KEY(crawl.html.max_nodes, "nodes of a page", .range = kPositive));
  keys.push_back(
      SX_KEY(crawl.html.max_depth, "depth of open elements", .range = {.low = 8, .high = 1 << 16}));
  keys.push_back(SX_KEY(crawl.html.max_attributes, "attributes of an element", .range = kPositive));
  keys.push_back(SX_KEY(crawl.html.memory_per_byte, "parser memory per byte of the page",
                        .range = {.low = 8}));
  keys.push_back(
      SX_KEY(crawl.html.on_limit, "at a limit: keep what was read so far, or drop the page"));
  keys.push_back(SX_KEY(crawl.extract.mode,
                        "what of a page is its text: all that is visible, or the main content"));
  keys.push_back(SX_KEY(crawl.extract.min_confidence,
                        "pages whose main content is found with less confidence are dropped",
                        .range = {.low = 0, .high = 1}));
  keys.push_back(SX_KEY(crawl.pii.mode,
                        "personal data in a text: left, masked by a token, replaced by a made-up "
                        "one, only counted, or a reason to drop the page"));
  keys.push_back(SX_KEY(crawl.pii.preset, "whose rules say what an address or a number is"));
  keys.push_back(SX_KEY(crawl.pii.kinds, "personal data that is looked for",
                        .words = {"email", "phone", "ip", "iban", "card", "key"}));
  keys.push_back(SX_KEY(crawl.dedup.kinds,
                        "copies that are dropped: equal texts, and texts that MinHash finds and "
                        "crawl.dedup.jaccard confirms",
                        .words = {"document", "minhash"}));
  keys.push_back(SX_KEY(crawl.dedup.keep, "which document of near-duplicates stays"));
  keys.push_back(SX_KEY(crawl.dedup.jaccard,
                        "share of common word 5-grams from which two texts are one",
                        .range = {.low = 0, .high = 1, .low_open = true}));
  keys.push_back(SX_KEY(crawl.policy,
                        "rules a page must pass, in order: names of policies (none, sextant, "
                        "gopher, c4, fineweb, refinedweb, dolma, cs336) or "
                        "rule:preset{threshold=number}"));
  keys.push_back(SX_KEY(crawl.annotate,
                        "counts stored beside the documents, for a replay with another policy: "
                        "none, those the policy took, or those of every rule"));
  keys.push_back(SX_KEY(crawl.output.shard_bytes, "text in an output file before the next begins",
                        .range = kPositive));
  keys.push_back(SX_KEY(crawl.output.frame_bytes, "text in one zstd frame", .range = kPositive));
  keys.push_back(
      SX_KEY(crawl.output.zstd_level, "compression level", .range = {.low = 1, .high = 22}));
  keys.push_back(SX_KEY(crawl.max_bad_share, "largest share of damaged records before exit 6",
                        .range = {.low = 0, .high = 1}));
}

#undef SX_KEY

std::vector<KeySpec> make_table() {
  std::vector<KeySpec> keys;
  add_run(keys);
  add_model(keys);
  add_optimization(keys);
  add_training(keys);
  add_inputs(keys);
  add_outputs(keys);
  add_crawl(keys);
  return keys;
}

std::map<std::string, const KeySpec*, std::less<>> make_index() {
  std::map<std::string, const KeySpec*, std::less<>> index;
  for (const KeySpec& key : key_table()) {
    SX_CHECK(index.emplace(key.name, &key).second, "key {} is twice in the table", key.name);
    for (const std::string& alias : key.aliases) {
      SX_CHECK(index.emplace(alias, &key).second, "name {} is twice in the table", alias);
    }
  }
  return index;
}

}  // namespace

const std::vector<KeySpec>& key_table() {
  static const std::vector<KeySpec> table = make_table();
  return table;
}

const KeySpec* find_key(std::string_view name) {
  static const auto index = make_index();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

std::vector<std::string> key_groups() {
  std::vector<std::string> groups;
  for (const KeySpec& key : key_table()) {
    if (groups.empty() || groups.back() != key.group()) groups.push_back(key.group());
  }
  return groups;
}

}  // namespace sx
