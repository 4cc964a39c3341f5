#include "sextant/train/train_data.h"

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/recipe/key_value.h"

namespace sx {

namespace {

template <class T>
T value_or_throw(Result<T> result, const std::string& next) {
  if (result.ok()) return std::move(result).value();
  const Diagnostic diagnostic = to_diagnostic(result.error(), next);
  if (diagnostic.exit == ExitCode::kUser) throw ConfigError(diagnostic);
  throw IoError(diagnostic);
}

bool reads_built_in_text(const DataKeys& keys) {
  return std::all_of(keys.paths.begin(), keys.paths.end(),
                     [](const std::string& path) { return path == "demo" || path == "mock"; });
}

Tokenizer open_tokenizer(const Recipe& recipe) {
  const TokenizerKeys& keys = recipe.tokenizer;
  if (keys.kind == TokenizerKind::kBytes) return Tokenizer::bytes();
  if (!keys.path.empty()) {
    return value_or_throw(Tokenizer::load(keys.path, to_word(keys.kind)),
                          "sextant tokenize inspect " + keys.path);
  }
  if (reads_built_in_text(recipe.data)) return Tokenizer::bytes();
  throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                               .number = 25,
                               .what = "tokenizer.path is not set",
                               .where = "tokenizer.path",
                               .rule = "a run needs the vocabulary its data was packed with",
                               .next = "sextant train ... --set tokenizer.path=FOLDER"});
}

Dataset::Options dataset_options(const Recipe& recipe, const Tokenizer& tokenizer) {
  Dataset::Options options;
  options.split = recipe.data.split;
  options.eod_id = tokenizer.eod_id() ? static_cast<std::int32_t>(*tokenizer.eod_id()) : -1;
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

LoaderOptions loader_options(const RunContext& run) {
  const Recipe& recipe = run.recipe;
  const TrainingKeys& keys = recipe.training;
  LoaderOptions options;
  options.seed = recipe.data.shuffle_seed;
  options.seq_len = keys.seq_len;
  options.micro_batch_size = keys.micro_batch_size;
  options.micro_batches = keys.global_batch_size / (keys.micro_batch_size * run.world.degree());
  options.data_rank = run.world.coord();
  options.data_world = run.world.degree();
  options.workers = static_cast<int>(recipe.data.workers);
  return options;
}

}  // namespace

TrainData open_train_data(const Recipe& recipe) {
  TrainData data{open_tokenizer(recipe), nullptr, nullptr};
  Dataset::Options options = dataset_options(recipe, data.tokenizer);
  if (recipe.data.paths.empty()) {  // only what is to be evaluated
    if (recipe.data.eval_paths.empty()) return data;
    options.paths = recipe.data.eval_paths;
    options.part = SplitPart::kAll;
    data.heldout = value_or_throw(Dataset::open(options), "sextant data inspect PREFIX");
    return data;
  }
  options.paths = recipe.data.paths;
  options.part = recipe.data.eval_paths.empty() ? SplitPart::kTrain : SplitPart::kAll;
  data.train = value_or_throw(Dataset::open(options), "sextant data inspect PREFIX");

  if (!recipe.data.eval_paths.empty()) {
    options.paths = recipe.data.eval_paths;
    data.heldout = value_or_throw(Dataset::open(options), "sextant data inspect PREFIX");
  } else {
    options.part = SplitPart::kValid;
    Result<std::shared_ptr<const Dataset>> heldout = Dataset::open(options);
    // An empty second part of the split is a choice, not a fault.
    if (heldout.ok() || heldout.error().kind != ErrorKind::kInvalid) {
      data.heldout = value_or_throw(std::move(heldout), "sextant data inspect PREFIX");
    }
  }
  return data;
}

Loader make_train_loader(const TrainData& data, const RunContext& run) {
  return value_or_throw(Loader::open(data.train, loader_options(run)),
                        "sextant data inspect PREFIX");
}

Loader make_eval_loader(const TrainData& data, const RunContext& run) {
  SX_CHECK(data.heldout != nullptr, "no held-out data");
  LoaderOptions options = loader_options(run);
  options.pass = LoaderOptions::Pass::kEval;
  return value_or_throw(Loader::open(data.heldout, options), "sextant data inspect PREFIX");
}

}  // namespace sx
