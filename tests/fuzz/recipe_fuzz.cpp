// Any bytes as a recipe: TOML, or JSON behind a first '{'. Faults are fine, crashes are not; a
// recipe without faults is written, read again, and keeps its fingerprint.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sextant/recipe/builder.h"
#include "sextant/recipe/json_lines.h"
#include "sextant/recipe/read_source.h"

namespace {

sx::LoadedRecipe build(const std::vector<sx::Layer>& layers) {
  sx::RecipeBuilder builder;
  builder.apply(layers);
  builder.resolve({});
  return builder.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<sx::Layer> layers;
  std::vector<sx::Diagnostic> faults;
  if (!text.empty() && text[0] == '{') {
    auto leaves = sx::read_json_leaves(text);
    if (!leaves.ok()) return 0;
    sx::Layer layer;
    for (sx::JsonLeaf& leaf : *leaves) layer.push_back({leaf.key, leaf.value, "json:1", ""});
    layers.push_back(std::move(layer));
  } else {
    sx::read_recipe_text(text, "toml", layers, faults);
  }
  const sx::LoadedRecipe loaded = build(layers);
  if (!faults.empty() || !loaded.faults.empty()) return 0;
  std::vector<sx::Layer> again;
  sx::read_recipe_text(loaded.recipe.to_toml(), "again", again, faults);
  const sx::LoadedRecipe second = build(again);
  if (!faults.empty() || !second.faults.empty()) std::abort();
  if (second.recipe.fingerprint() != loaded.recipe.fingerprint()) std::abort();
  return 0;
}
