#include "sextant/train/train_data.h"

#include "sextant/base/check.h"

namespace sx {

TrainData open_train_data(const Recipe& recipe) { return open_recipe_data(recipe); }

Loader make_train_loader(const TrainData& data, const RunContext& run) {
  return value_or_throw(Loader::open(
      data.train, loader_options(run.recipe, data, run.world.coord(), run.world.degree())));
}

Loader make_eval_loader(const TrainData& data, const RunContext& run) {
  SX_CHECK(data.heldout != nullptr, "no held-out data");
  LoaderOptions options = loader_options(run.recipe, data, run.world.coord(), run.world.degree());
  options.pass = LoaderOptions::Pass::kEval;
  options.fim = nullptr;
  return value_or_throw(Loader::open(data.heldout, options));
}

}  // namespace sx
