#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/recipe.h"

namespace sx {

/// Where settings come from; later wins: built-in defaults < preset < file(s) with their includes <
/// sets.
struct RecipeSources {
  std::string preset;  ///< "tiny", "debug"; empty = none
  std::string path;    ///< .toml or .json; empty = none
  std::vector<std::pair<std::string, std::string>>
      sets;  ///< key, value as typed (TOML value, else bare string)
  /// Groups whose keys must be complete: "training" asks for steps and seq_len, "model" for sizes,
  /// "data" for paths.
  std::vector<std::string> required_groups = {};
  /// The call only evaluates: it needs no number of steps, may have data.eval_paths alone, and takes
  /// all held-out data where metrics.eval_steps is not given.
  bool only_evaluates = false;
};

/// Names of the built-in recipes (recipes/*.toml), sorted.
std::vector<std::string> recipe_preset_names();

/// A recipe after all derivations, with the source of each value. Immutable.
class ResolvedRecipe {
 public:
  const Recipe& get() const { return recipe_; }
  const Recipe* operator->() const { return &recipe_; }

  /// "default", "preset tiny", "8b.toml:14", "--set", "derived".
  std::string source(const std::string& key) const;
  /// Every key as `recipe.resolved.toml` shows it, one line each with its source as a comment;
  /// reading it again gives the same fingerprint.
  std::string to_toml() const;
  /// The same tree as JSON.
  nlohmann::ordered_json to_json() const;
  /// XXH3-128 of the canonical form without cosmetic keys, 32 hex digits.
  std::string fingerprint() const;
  /// `text` with "${run}" replaced by the run folder.
  static std::string expand_run(std::string text, const std::string& run_folder);

 private:
  friend class RecipeBuilder;
  Recipe recipe_;
  std::map<std::string, std::string> sources_;
  std::set<std::string> unset_;  ///< keys without default that nothing gave
};

struct LoadedRecipe {
  ResolvedRecipe recipe;
  std::vector<Diagnostic> faults;  ///< all of them; the recipe is only good when there are none
  std::vector<std::string> notes;  ///< one line each: an alias was mapped
};

/// Reads, checks and derives. Reports every fault with file and line, not the first.
LoadedRecipe load_recipe(const RecipeSources& sources);

/// One key in which two recipes differ.
struct RecipeDifference {
  std::string key;
  std::string left;
  std::string right;
  bool resumable = false;  ///< may differ when a run is resumed
};
/// Differences in keys that are not cosmetic, in table order.
std::vector<RecipeDifference> diff(const ResolvedRecipe& left, const ResolvedRecipe& right);

}  // namespace sx
