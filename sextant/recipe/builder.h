#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sextant/recipe/key_table.h"
#include "sextant/recipe/load.h"
#include "sextant/recipe/read_source.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// A recipe on its way from layers of settings to a resolved one. Collects faults instead of
/// stopping at the first.
class RecipeBuilder {
 public:
  /// Looks up names, maps aliases, lets later layers win, checks types and ranges.
  void apply(const std::vector<Layer>& layers);
  /// Derives what was left out or "auto", and checks rules that join several keys (resolve.cpp).
  void resolve(const RecipeSources& sources);
  LoadedRecipe finish();

  void add_faults(std::vector<Diagnostic> faults);

 private:
  void apply_one(const KeySpec& key, const Setting& setting);
  void take_layer(const Layer& layer, std::map<std::string, Setting>& merged);
  void unknown_key(const Setting& setting);
  Json expand_paths(const KeySpec& key, const Setting& setting, Json value);

  /// True when a source gave the key a value other than "auto".
  bool given(const std::string& key) const { return given_.contains(key); }
  /// Marks a key as derived; its source becomes "derived".
  void derived(const std::string& key);
  void fault(int number, std::string what, const std::string& key, std::string rule,
             std::string next = "");
  Recipe& recipe() { return loaded_.recipe.recipe_; }

  std::optional<ModelShape> preset_shape();
  void resolve_model(const RecipeSources& sources);
  void resolve_evaluation();
  void take_launched_ranks();
  void resolve_batches();
  void resolve_schedule();
  void resolve_rest(const RecipeSources& sources);
  void require(const RecipeSources& sources);

  LoadedRecipe loaded_;
  std::set<std::string> given_;
  std::string subject_;  ///< the recipe as the next command names it
};

}  // namespace sx
