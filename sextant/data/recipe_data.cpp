#include "sextant/data/recipe_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/data/megatron_dataset.h"
#include "sextant/recipe/key_value.h"

namespace sx {

namespace {

std::vector<std::string> paths_of(const DataKeys& keys) {
  if (keys.blend.empty()) return keys.paths;
  std::vector<std::string> paths;
  for (const BlendPart& part : keys.blend) paths.push_back(part.path);
  return paths;
}

std::vector<double> weights_of(const DataKeys& keys) {
  std::vector<double> weights;
  for (const BlendPart& part : keys.blend) weights.push_back(part.weight);
  return weights;
}

bool reads_built_in_text(const DataKeys& keys) {
  const std::vector<std::string> paths = paths_of(keys);
  return std::all_of(paths.begin(), paths.end(),
                     [](const std::string& path) { return path == "demo" || path == "mock"; });
}

Tokenizer open_tokenizer(const Recipe& recipe) {
  const TokenizerKeys& keys = recipe.tokenizer;
  if (keys.kind == TokenizerKind::kBytes) return Tokenizer::bytes();
  if (!keys.path.empty()) {
    return value_or_throw(Tokenizer::load(keys.path, to_word(keys.kind)),
                          "another tokenizer.path, or --set tokenizer.kind=KIND");
  }
  if (reads_built_in_text(recipe.data)) return Tokenizer::bytes();
  throw ConfigError(user_fault(25, "tokenizer.path is not set", "tokenizer.path",
                               "a run needs the vocabulary its data was packed with",
                               "sextant train ... --set tokenizer.path=FOLDER"));
}

std::int32_t eod_of(const Tokenizer& tokenizer) {
  return tokenizer.eod_id() ? static_cast<std::int32_t>(*tokenizer.eod_id()) : -1;
}

/// The padding token of a vocabulary that has one of its own.
std::int32_t pad_of(const Tokenizer& tokenizer) {
  for (const SpecialToken& special : tokenizer.specials()) {
    for (const char* name : {"<pad>", "<|pad|>", "[PAD]", "<PAD>", "<|padding|>"}) {
      if (special.text == name) return static_cast<std::int32_t>(special.id);
    }
  }
  return -1;
}

Dataset::Options dataset_options(const Recipe& recipe, const Tokenizer& tokenizer) {
  Dataset::Options options;
  options.split = recipe.data.split;
  options.eod_id = eod_of(tokenizer);
  options.seed = recipe.run.seed;
  options.mock_vocab_size = static_cast<std::int32_t>(tokenizer.vocab_size());
  options.tokenizer_fingerprint = tokenizer.fingerprint().hex();
  options.encode = [tokenizer](std::string_view text) {
    std::vector<TokenId> ids;
    // The default policies accept every byte string.
    const auto stats = tokenizer.encode(text, ids);
    SX_CHECK(stats.ok(), "built-in text does not encode");
    return std::vector<std::int32_t>(ids.begin(), ids.end());
  };
  return options;
}

void open_native(const Recipe& recipe, RecipeData& data) {
  Dataset::Options options = dataset_options(recipe, data.tokenizer);
  const std::vector<std::string> paths = paths_of(recipe.data);
  const bool own_heldout = !recipe.data.eval_paths.empty();
  if (!paths.empty()) {
    options.paths = paths;
    options.weights = weights_of(recipe.data);
    options.part = own_heldout ? SplitPart::kAll : SplitPart::kTrain;
    data.train = value_or_throw(Dataset::open(options));
  }
  if (own_heldout) {
    options.paths = recipe.data.eval_paths;
    options.weights.clear();
    options.part = SplitPart::kAll;
    data.heldout = value_or_throw(Dataset::open(options));
  } else if (!paths.empty()) {
    options.part = SplitPart::kValid;
    Result<std::shared_ptr<const Dataset>> heldout = Dataset::open(options);
    // An empty second part of the split is a choice, not a fault.
    if (heldout.ok() || heldout.error().kind != ErrorKind::kInvalid) {
      data.heldout = value_or_throw(std::move(heldout));
    }
  }
}

MegatronConfig megatron_config(const Recipe& recipe, const Tokenizer& tokenizer) {
  MegatronConfig config;
  config.seed = recipe.data.shuffle_seed;
  config.seq_len = static_cast<std::uint64_t>(recipe.training.seq_len);
  config.blend.paths = paths_of(recipe.data);
  if (!recipe.data.blend.empty()) config.blend.weights = weights_of(recipe.data);
  config.split = recipe.data.split;
  config.surplus = recipe.data.surplus;
  config.rounding = recipe.data.megatron_fma ? BlendRounding::kFused : BlendRounding::kSeparate;
  config.cache = recipe.data.cache_dir;
  config.tokenizer = {{"class", "sextant"}, {"kind", tokenizer.kind()}};
  if (!recipe.data.eval_paths.empty()) {
    config.per_split.emplace();
    if (!config.blend.paths.empty()) (*config.per_split)[0] = config.blend;
    (*config.per_split)[1] = MegatronBlend{recipe.data.eval_paths, std::nullopt};
  }
  config.open_other = [options = dataset_options(recipe, tokenizer)](
                          const std::string& path) -> Result<std::shared_ptr<const Sequences>> {
    if (!is_no_pair(path)) return std::shared_ptr<const Sequences>();
    SX_TRY(auto source, open_token_source(path, options));
    return make_document_sequences(std::move(source));
  };
  return config;
}

void open_megatron(const Recipe& recipe, RecipeData& data) {
  const auto batch = static_cast<std::uint64_t>(recipe.training.global_batch_size);
  const auto steps = static_cast<std::uint64_t>(recipe.training.steps);
  const auto eval_steps = static_cast<std::uint64_t>(recipe.metrics.eval_steps);
  const auto every = static_cast<std::uint64_t>(recipe.metrics.eval_every);
  std::array<std::optional<std::uint64_t>, 3> sizes;
  sizes[0] = steps * batch;
  if (eval_steps > 0) sizes[1] = ((every > 0 ? steps / every : 0) + 1) * eval_steps * batch;
  const std::string fingerprint = data.tokenizer.fingerprint().hex();
  const MegatronSplits splits = value_or_throw(
      open_megatron_datasets(megatron_config(recipe, data.tokenizer), sizes, {true, true, false}));
  if (splits[0]) data.train = Dataset::from_megatron(splits[0], fingerprint);
  if (splits[1]) data.heldout = Dataset::from_megatron(splits[1], fingerprint);
}

}  // namespace

void throw_data_error(const Error& error) {
  Diagnostic fault = to_diagnostic(error, "sextant data inspect PREFIX");
  if (fault.exit != ExitCode::kUser) throw IoError(fault);
  if (error.kind == ErrorKind::kInvalid && error.where == "data.split") {
    fault.number = 30;
    fault.rule = "each part of a split that is read has tokens";
    fault.next = "choose another data.split; sextant data inspect PREFIX shows the lengths";
  } else if (error.kind == ErrorKind::kInvalid && error.where == "data.surplus") {
    fault.number = 31;
    fault.rule = "a blend takes no more samples from a member than were built for it";
    fault.next = "--set data.surplus as the message says";
  } else if (error.kind == ErrorKind::kInvalid && error.where == "data.blend without a size") {
    fault.number = 34;
    fault.rule = "weights share out a number of samples";
    fault.next = "--set metrics.eval_steps=10, or data.paths instead of data.blend";
  }
  throw ConfigError(fault);
}

RecipeData open_recipe_data(const Recipe& recipe) {
  RecipeData data{open_tokenizer(recipe), nullptr, nullptr};
  const bool nothing = paths_of(recipe.data).empty() && recipe.data.eval_paths.empty();
  if (nothing) return data;
  if (recipe.data.mode == DataMode::kMegatron) {
    open_megatron(recipe, data);
  } else {
    open_native(recipe, data);
  }
  return data;
}

LoaderOptions loader_options(const Recipe& recipe, const RecipeData& data, std::int64_t data_rank,
                             std::int64_t data_world) {
  const TrainingKeys& keys = recipe.training;
  LoaderOptions options;
  options.seed = recipe.data.shuffle_seed;
  options.seq_len = keys.seq_len;
  options.micro_batch_size = keys.micro_batch_size;
  options.micro_batches = keys.global_batch_size / (keys.micro_batch_size * data_world);
  options.data_rank = data_rank;
  options.data_world = data_world;
  options.workers = static_cast<int>(recipe.data.workers);
  options.lookahead_batches = static_cast<int>(recipe.data.lookahead_batches);
  options.stall_timeout = recipe.data.stall_timeout;
  options.allow_change = recipe.data.allow_change;
  options.masks = {.inter_document = recipe.data.inter_document_masking,
                   .eod_mask = recipe.data.eod_mask,
                   .reset_positions = recipe.data.reset_positions,
                   .reset_attention = recipe.data.reset_attention,
                   .eod_id = eod_of(data.tokenizer),
                   .pad_id = recipe.data.mode == DataMode::kMegatron ? pad_of(data.tokenizer) : -1};
  if (recipe.data.fim_rate > 0) {
    options.fim = value_or_throw(Fim::make(data.tokenizer, {.rate = recipe.data.fim_rate,
                                                            .spm_rate = recipe.data.fim_spm_rate,
                                                            .seed = recipe.data.shuffle_seed,
                                                            .pad_id = options.masks.pad_id}));
  }
  return options;
}

}  // namespace sx
