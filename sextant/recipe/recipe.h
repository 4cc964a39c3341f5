#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/log.h"
#include "sextant/base/units.h"

namespace sx {

/// The settings of a run, one struct per group of keys: `training.seq_len` is
/// `recipe.training.seq_len`. Names, types, defaults and ranges are those of the key table
/// (key_table.h, docs/keys.md); `sextant/recipe/load.h` fills one. Immutable after `resolve`. An
/// empty optional is a key that may be left out, or the string "auto" that only the owner can turn
/// into a number (say a vocabulary size before the tokenizer is read).

enum class Decay { kCosine, kLinear, kSqrt, kConstant };
enum class Dtype { kFp32, kFp64, kBf16, kFp16 };
enum class NonFinite { kHalt, kSkip };
enum class ThreadsProgress { kWait, kThread };
enum class Zero { kDdp, kZero1, kZero2, kFsdp1, kFsdp2 };
enum class DtypeOrAuto { kAuto, kFp32, kFp64, kBf16, kFp16 };
enum class DpLayout { kAuto, kBucket, kBucketPlain, kFlat, kPerParam, kBlock, kTensor };
enum class DpOrder { kAuto, kFlat, kNested };
enum class DpAccumulate { kAuto, kLocal, kReduced };
enum class DpGradScale { kOne, kMean };
enum class DpUnused { kZero, kStrict, kKeep };
enum class DpTie { kError, kMergeUnits };
enum class DpWire { kReduceDtype, kA2aFp32 };
enum class DpCompat { kSextant, kTorch, kMegatron };
enum class RecomputeMode { kNone, kSelective, kFull };
enum class TransportKind { kAuto, kSolo, kThreads, kTcp, kMpi, kNccl };
enum class DataMode { kNative, kMegatron };
enum class OnLimit { kKeep, kDrop };
enum class CrawlAnnotate { kOff, kPolicy, kAll };
enum class CrawlExtract { kLayout, kMain };
enum class CrawlPii { kOff, kMask, kPseudonym, kTag, kDrop };
enum class CrawlPiiPreset { kSextant, kCs336, kDatatrove };
enum class CrawlKeep { kFirst, kRandom, kLongest };
enum class TokenizerKind { kAuto, kHf, kTiktoken, kSentencepiece, kSextant, kBytes };
enum class SpecialTokens { kText, kAllow, kError };
enum class InvalidBytes { kBytes, kReplace, kError };

struct RunKeys {
  std::string name;  ///< resolved: the recipe file's stem, else the preset's name, else "run"
  std::uint64_t seed = 1;
  std::int64_t threads = 0;  ///< resolved from "auto": usable cores
  bool deterministic = true;
  bool flush_denormals = true;
};

struct LogKeys {
  LogLevel level = LogLevel::kInfo;
};

/// Fields as in RopeScaling (sextant/shape).
struct RopeScalingKeys {
  std::string type = "none";
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 8192;
};

/// Fields as in ModelShape (sextant/shape); text values are those of its enumerations. `resolve`
/// fills what `arch` and `preset` imply, so all but `vocab_size` have values afterwards.
struct ModelKeys {
  std::string preset;
  std::string arch = "llama";
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_heads_kv = 0;
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> vocab_size;  ///< empty = the tokenizer's
  std::int64_t vocab_pad_to = 128;
  std::int64_t max_positions = 0;
  std::string norm = "rms";
  double norm_eps = 1e-5;
  std::string activation = "swiglu";
  double rope_theta = 10000;
  RopeScalingKeys rope_scaling;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool linear_bias = false;
  std::string positions = "rope";
  bool tie_embeddings = false;
  double init_std = 0.02;
};

struct OptimizerKeys {
  std::string name = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norm_and_bias = false;
};

struct LrSchedulerKeys {
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::kCosine;
  std::int64_t decay_steps =
      0;  ///< resolved from "auto": all steps after the warm-up and the stable part
  double min_ratio = 0.1;
  double stable_ratio = 0;  ///< > 0: warm-up, constant for this share of the steps, then decay
};

/// Scale of the loss with dtype fp16 (sextant/shard/grad_scaler.h).
struct LossScaleKeys {
  double initial = 65536;
  double min = 1;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;
  std::int64_t hysteresis = 1;
};

struct TrainingKeys {
  std::int64_t steps = 0;   ///< resolved from `tokens` when that is given instead
  std::int64_t tokens = 0;  ///< resolved: steps * global_batch_size * seq_len
  std::int64_t seq_len = 0;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;  ///< resolved from "auto": micro_batch_size * dp_replicate
  double grad_clip = 1.0;              ///< 0 = off
  Dtype dtype = Dtype::kFp32;
  DtypeOrAuto param_dtype = DtypeOrAuto::kAuto;   ///< auto: fp32, fp64 when dtype is fp64
  DtypeOrAuto reduce_dtype = DtypeOrAuto::kAuto;  ///< auto: that of the main gradients
  LossScaleKeys loss_scale;
  NonFinite nonfinite = NonFinite::kHalt;
  std::int64_t max_skip_steps = 0;
};

/// true, false, a number, or a word.
struct Switch {
  std::string text = "auto";  ///< "true", "4", "fits", ...
  friend bool operator==(const Switch&, const Switch&) = default;
};

/// What differs for units whose name matches `unit`; empty fields are those of the whole model.
struct DpOverride {
  std::string unit;  ///< shell pattern, "layers.*"; "root" is the root
  std::optional<Zero> zero;
  std::optional<DpLayout> layout;
  std::optional<Switch> reshard_after_forward;
  std::optional<DpAccumulate> accumulate;
  std::optional<DtypeOrAuto> param_dtype, reduce_dtype, main_dtype, output_dtype;
  std::optional<bool> cast_inputs;
  std::optional<DpWire> wire;
  friend bool operator==(const DpOverride&, const DpOverride&) = default;
};

/// The engine's choices (sextant/dp/policy.h).
struct DpKeys {
  DpLayout layout = DpLayout::kAuto;
  DpOrder order = DpOrder::kAuto;  ///< auto: flat if run.deterministic, else nested
  DpAccumulate accumulate = DpAccumulate::kAuto;
  DpGradScale grad_scale = DpGradScale::kOne;
  DtypeOrAuto main_dtype = DtypeOrAuto::kAuto;
  DtypeOrAuto output_dtype = DtypeOrAuto::kAuto;  ///< auto: as computed
  bool cast_inputs = true;
  DpUnused unused = DpUnused::kZero;
  DpTie tie = DpTie::kError;
  std::optional<Bytes> prefetch_bytes;  ///< empty = two units
  Bytes unit_cap{std::int64_t{2} << 30};
  std::optional<std::int64_t> bucket_elements;  ///< empty = max(40,000,000, 1,000,000 x dp_shard)
  std::int64_t num_buckets = 0;
  bool pad_for_bus = false;
  bool overlap_reduce = true;
  bool overlap_param_gather = true;
  DpWire wire = DpWire::kReduceDtype;
  bool separate_comms = true;
  std::vector<std::string> offload;  ///< "param", "grad", "optim"
  DpCompat compat = DpCompat::kSextant;
  std::vector<DpOverride> overrides;
};

struct ParallelismKeys {
  std::int64_t dp_replicate = 1;
  std::optional<std::int64_t>
      dp_shard;  ///< empty = ranks / the other degrees; 1 if nobody says how many ranks
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::string rank_order = "default";
  std::string topology = "auto";  ///< "auto" or a path
  Zero zero = Zero::kFsdp2;
  Switch reshard_after_forward;
  bool optimizer_over_replicas = false;
  DpKeys dp;

  /// Ranks that read different data.
  std::int64_t data_ranks() const { return dp_replicate * dp_shard.value_or(1); }
};

struct ActivationCheckpointKeys {
  RecomputeMode mode = RecomputeMode::kNone;
  std::int64_t every = 1;
  std::int64_t first = 0;
  std::vector<std::string> ops;  ///< empty = all of them
};

/// "1000 steps", a duration, or 0 = only at the end.
struct SaveInterval {
  std::int64_t steps = 0;
  Seconds duration{};
  friend bool operator==(const SaveInterval&, const SaveInterval&) = default;
};

struct CheckpointKeys {
  std::string dir;  ///< resolved: "${run}/ckpt" when not given; `${run}` is put in by `expand_run`
  SaveInterval interval;
  std::int64_t keep = 3;
  std::int64_t keep_every = 0;
  bool async = true;            ///< write while training goes on
  std::string load = "latest";  ///< "latest", "none" or a path
  bool load_strict = true;
  std::vector<std::string> load_exclude;  ///< shell patterns of names that are not loaded
  Seconds stop_deadline{90};
  bool export_hf = false;                         ///< at the end, into ${run}/hf
  DtypeOrAuto export_dtype = DtypeOrAuto::kAuto;  ///< auto = as the checkpoint has them
};

struct BlendPart {
  std::string path;
  double weight = 0;
  friend bool operator==(const BlendPart&, const BlendPart&) = default;
};

struct DataKeys {
  std::vector<std::string> paths;       ///< prefixes of .bin/.idx pairs, or "demo"
  std::vector<BlendPart> blend;         ///< instead of `paths`: with weights
  std::vector<std::string> eval_paths;  ///< held-out data; empty = the second part of `split`
  std::string split = "969,30,1";
  std::int64_t workers = 0;        ///< resolved from "auto"
  std::uint64_t shuffle_seed = 0;  ///< resolved from "run.seed"
  DataMode mode = DataMode::kNative;
  std::string cache_dir;  ///< mode megatron; empty = beside the data
  double surplus = 0.005;
  bool megatron_fma = false;
  bool eod_mask = false;
  bool reset_positions = false;
  bool reset_attention = false;
  bool inter_document_masking = true;  ///< resolved: true in mode native
  double fim_rate = 0;
  double fim_spm_rate = 0.5;
  std::int64_t lookahead_batches = 8;
  Seconds stall_timeout{300};
  bool allow_change = false;
};

struct TokenizerKeys {
  std::string path;
  TokenizerKind kind = TokenizerKind::kAuto;
  std::string pattern = "auto";
  SpecialTokens special = SpecialTokens::kText;
  InvalidBytes invalid = InvalidBytes::kBytes;
  std::int64_t cache_slots = 1 << 20;
  std::optional<Bytes> train_memory;  ///< empty = half of the free memory
  std::int64_t vocab_size = 0;        ///< for `tokenize train`; 0 = must be given
  std::int64_t min_frequency = 2;
  std::int64_t max_token_length = 128;
};

struct MetricsKeys {
  std::int64_t log_every = 10;  ///< steps; the first 10 steps are always logged
  bool jsonl = true;
  bool tensorboard = true;
  std::int64_t eval_every = 0;  ///< steps; 0 = only at the end
  std::int64_t eval_steps = 10;
};

struct CommKeys {
  TransportKind transport = TransportKind::kAuto;
  Seconds init_timeout{300};
  Seconds timeout{600};
  Seconds first_timeout{1800};
  std::int64_t flight_records = 4096;
  ThreadsProgress threads_progress = ThreadsProgress::kWait;
  std::vector<std::string> debug;  ///< "poison", "delay", "check"
};

struct CrawlSelectKeys {
  std::vector<std::string> types{"response"};
  std::vector<std::string> mime{"text/html", "application/xhtml+xml", "text/plain"};
  std::vector<std::int64_t> status{200};
};

struct CrawlCharsetKeys {
  std::vector<std::string> order{"bom", "http", "meta", "detect"};
  bool extra = false;
};

struct CrawlExtractKeys {
  CrawlExtract mode = CrawlExtract::kLayout;
  double min_confidence = 0;
};

struct CrawlPiiKeys {
  CrawlPii mode = CrawlPii::kMask;
  CrawlPiiPreset preset = CrawlPiiPreset::kSextant;
  std::vector<std::string> kinds{"email", "phone", "ip", "iban", "card", "key"};
};

struct CrawlDedupKeys {
  std::vector<std::string> kinds{"document"};
  CrawlKeep keep = CrawlKeep::kFirst;
  double jaccard = 0.8;
};

struct CrawlHtmlKeys {
  std::int64_t max_nodes = 4'000'000;
  std::int64_t max_depth = 512;
  std::int64_t max_attributes = 1024;
  std::int64_t memory_per_byte = 64;
  OnLimit on_limit = OnLimit::kKeep;
};

struct CrawlOutputKeys {
  Bytes shard_bytes{std::int64_t{1} << 30};
  Bytes frame_bytes{std::int64_t{4} << 20};
  std::int64_t zstd_level = 3;
};

struct CrawlKeys {
  std::vector<std::string> inputs;
  std::string dump;
  std::vector<std::string> policy{"none"};
  CrawlAnnotate annotate = CrawlAnnotate::kPolicy;
  CrawlSelectKeys select;
  Bytes max_payload{std::int64_t{64} << 20};
  CrawlCharsetKeys charset;
  CrawlExtractKeys extract;
  CrawlPiiKeys pii;
  CrawlDedupKeys dedup;
  CrawlHtmlKeys html;
  CrawlOutputKeys output;
  double max_bad_share = 0.01;
};

struct Recipe {
  RunKeys run;
  LogKeys log;
  ModelKeys model;
  OptimizerKeys optimizer;
  LrSchedulerKeys lr_scheduler;
  TrainingKeys training;
  ParallelismKeys parallelism;
  ActivationCheckpointKeys activation_checkpoint;
  CheckpointKeys checkpoint;
  DataKeys data;
  TokenizerKeys tokenizer;
  MetricsKeys metrics;
  CommKeys comm;
  CrawlKeys crawl;
};

}  // namespace sx
