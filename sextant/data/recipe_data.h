#pragma once

#include <cstdint>
#include <memory>

#include "sextant/data/dataset.h"
#include "sextant/data/loader.h"
#include "sextant/recipe/recipe.h"
#include "sextant/token/tokenizer.h"

namespace sx {

/// What the keys data.*, tokenizer.* and training.* of a recipe name, opened. Immutable.
struct RecipeData {
  Tokenizer tokenizer;
  std::shared_ptr<const Dataset> train;    ///< null without data.paths and data.blend
  std::shared_ptr<const Dataset> heldout;  ///< null when there is nothing to evaluate on
};

/// Held-out data is data.eval_paths, or the second part of data.split. In mode "megatron" both are
/// built for the samples that the run will ask for, as Megatron-LM counts them; index caches are
/// read and written.
/// Errors:  ConfigError (no tokenizer, file not found, empty split part SX2-030, blend member too
/// small SX2-031), IoError (corrupt file).
RecipeData open_recipe_data(const Recipe& recipe);

/// Settings of the loader of one data rank; the vocabulary of `data` gives special ids.
LoaderOptions loader_options(const Recipe& recipe, const RecipeData& data, std::int64_t data_rank,
                             std::int64_t data_world);

/// The value, or the fault as a diagnostic: ConfigError for what the user chose, else IoError.
[[noreturn]] void throw_data_error(const Error& error);
template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw_data_error(result.error());
  return std::move(result).value();
}

}  // namespace sx
