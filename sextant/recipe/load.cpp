#include "sextant/recipe/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "sextant/base/env.h"
#include "sextant/base/hash.h"
#include "sextant/recipe/builder.h"
#include "sextant/recipe/command_line.h"
#include "sextant/recipe/embedded.h"

namespace sx {
namespace {

struct WordAlias {
  const char* key;
  const char* word;
  const char* ours;
};
/// Values that recipes of torchtitan carry under names Sextant shares.
constexpr WordAlias kWordAliases[] = {
    {"training.dtype", "bfloat16", "bf16"},
    {"training.dtype", "float16", "fp16"},
    {"training.dtype", "float32", "fp32"},
    {"optimizer.name", "AdamW", "adamw"},
};

Json map_words(const KeySpec& key, Json value) {
  if (!value.is_string()) return value;
  for (const WordAlias& alias : kWordAliases) {
    if (key.name == alias.key && value.get_ref<const std::string&>() == alias.word)
      return alias.ours;
  }
  return value;
}

/// The value as `--set` means it: text keys take what was typed, so `--set run.name=8` is the
/// string "8".
Json meant_value(const KeySpec& key, const Setting& setting) {
  const bool typed = setting.raw.empty() || setting.value.is_string() || setting.value.is_array();
  if (key.raw_text && !typed) return setting.raw;
  return setting.value;
}

/// The value as TOML writes it: as JSON does, but for tables.
std::string toml_text(const Json& value) {
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : ",") + toml_text(item);
    return "[" + text + "]";
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [name, item] : value.items())
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, toml_text(item));
    return "{" + text + "}";
  }
  return value.dump();
}

std::string place(const Setting& setting) {
  return fmt::format("{} ({})", setting.where, setting.key);
}

}  // namespace

void RecipeBuilder::fault(int number, std::string what, const std::string& key, std::string rule,
                          std::string next) {
  loaded_.faults.push_back({.exit = ExitCode::kUser,
                            .number = number,
                            .what = std::move(what),
                            .where = fmt::format("{} ({})", loaded_.recipe.source(key), key),
                            .rule = std::move(rule),
                            .next = std::move(next)});
}

void RecipeBuilder::add_faults(std::vector<Diagnostic> faults) {
  for (Diagnostic& one : faults) loaded_.faults.push_back(std::move(one));
}

void RecipeBuilder::derived(const std::string& key) {
  loaded_.recipe.sources_[key] = "derived";
  loaded_.recipe.unset_.erase(key);
}

void RecipeBuilder::unknown_key(const Setting& setting) {
  const std::vector<std::string> groups = key_groups();
  const std::string nearest = nearest_key(setting.key);
  Diagnostic one{.exit = ExitCode::kUser, .number = 1, .where = place(setting)};
  one.rule = "every key is in the key table";
  if (std::find(groups.begin(), groups.end(), setting.key) != groups.end()) {
    one.number = 2;
    one.what = fmt::format("{} is a group of keys, not a value", setting.key);
    one.rule = fmt::format("keys of a group stand under [{}]", setting.key);
    one.next = "sextant --help-recipe";
  } else if (nearest.empty()) {
    one.what = fmt::format("unknown key {}", setting.key);
    one.next = "sextant --help-recipe";
  } else {
    one.what = fmt::format("unknown key {}: did you mean {}?", setting.key, nearest);
    one.next = setting.raw.empty() ? fmt::format("write {} in place of {}", nearest, setting.key)
                                   : fmt::format("--set {}={}", nearest, setting.raw);
  }
  loaded_.faults.push_back(std::move(one));
}

void RecipeBuilder::take_layer(const Layer& layer, std::map<std::string, Setting>& merged) {
  std::map<std::string, const Setting*> inside;
  for (const Setting& setting : layer) {
    const KeySpec* key = find_key(setting.key);
    if (key == nullptr) {
      unknown_key(setting);
      continue;
    }
    if (key->name != setting.key) {
      loaded_.notes.push_back(
          fmt::format("{} is {} here ({})", setting.key, key->name, setting.where));
    }
    const auto [same, first] = inside.emplace(key->name, &setting);
    if (!first && same->second->key != setting.key && same->second->value != setting.value) {
      loaded_.faults.push_back(
          {.exit = ExitCode::kUser,
           .number = 4,
           .what = fmt::format("{} = {} and {} = {} are one key with two values", same->second->key,
                               same->second->value.dump(), setting.key, setting.value.dump()),
           .where = place(*same->second) + " and " + place(setting),
           .rule =
               fmt::format("{} is another name of {}",
                           key->name == setting.key ? same->second->key : setting.key, key->name),
           .next = "keep one of the two lines"});
    }
    merged.insert_or_assign(key->name, setting);
  }
}

Json RecipeBuilder::expand_paths(const KeySpec& key, const Setting& setting, Json value) {
  if (!key.path) return value;
  if (value.is_structured()) {
    for (Json& item : value) item = expand_paths(key, setting, item);
    return value;
  }
  if (!value.is_string()) return value;
  std::string text = value.get<std::string>();
  if (text == "~" || text.starts_with("~/")) text = env::get("HOME").value_or("~") + text.substr(1);
  const std::string recipe_word = "${recipe}";
  for (std::size_t at = 0; (at = text.find(recipe_word, at)) != std::string::npos;) {
    const std::string folder = setting.folder.empty() ? "." : setting.folder;
    text.replace(at, recipe_word.size(), folder);
    at += folder.size();
  }
  for (std::size_t at = 0; (at = text.find("${", at)) != std::string::npos; ++at) {
    if (text.compare(at, 6, "${run}") == 0) continue;
    fault(3,
          fmt::format("{} has a variable that does not exist: {}", key.name,
                      text.substr(at, text.find('}', at) - at + 1)),
          key.name, "paths know ~, ${run} (run folder) and ${recipe} (folder of the recipe)");
  }
  return text;
}

void RecipeBuilder::apply_one(const KeySpec& key, const Setting& setting) {
  loaded_.recipe.sources_[key.name] =
      key.name == setting.key ? setting.where : fmt::format("{} as {}", setting.where, setting.key);
  Json value = map_words(key, meant_value(key, setting));
  const bool automatic = value == Json("auto") && key.may_be_auto;
  const bool run_seed = key.name == "data.shuffle_seed" && value == Json("run.seed");
  if (automatic || run_seed) return;
  value = expand_paths(key, setting, std::move(value));

  const std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  switch (key.write(recipe(), value)) {
    case KeySpec::Write::kOk:
      given_.insert(key.name);
      loaded_.recipe.unset_.erase(key.name);
      return;
    case KeySpec::Write::kWrongType:
      fault(2, fmt::format("{} = {} is of the wrong type", key.name, shown), key.name,
            "it is " + key.expects, "sextant --help-recipe");
      return;
    case KeySpec::Write::kOutOfRange:
      fault(3, fmt::format("{} = {} is not allowed", key.name, shown), key.name,
            "it is " + key.expects, "sextant --help-recipe");
      return;
  }
}

void RecipeBuilder::apply(const std::vector<Layer>& layers) {
  for (const KeySpec& key : key_table()) {
    if (key.required) loaded_.recipe.unset_.insert(key.name);
  }
  std::map<std::string, Setting> merged;
  for (const Layer& layer : layers) take_layer(layer, merged);
  for (const KeySpec& key : key_table()) {
    const auto found = merged.find(key.name);
    if (found != merged.end()) apply_one(key, found->second);
  }
}

LoadedRecipe RecipeBuilder::finish() { return std::move(loaded_); }

LoadedRecipe load_recipe(const RecipeSources& sources) {
  std::vector<Layer> layers;
  std::vector<Diagnostic> faults;
  if (!sources.preset.empty()) {
    const EmbeddedFile* preset = find_embedded_recipe(sources.preset);
    if (preset == nullptr) {
      const std::vector<std::string> names = recipe_preset_names();
      const std::string nearest = nearest_name(sources.preset, names);
      std::string known;
      for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
      faults.push_back(
          {.exit = ExitCode::kUser,
           .number = 1,
           .what = fmt::format("unknown preset {}{}", sources.preset,
                               nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest)),
           .where = "command line (--preset)",
           .rule = "presets are " + known,
           .next = "--preset " + (nearest.empty() ? names.front() : nearest)});
    } else {
      read_recipe_text(preset->text, "preset " + sources.preset, layers, faults);
    }
  }
  if (!sources.path.empty()) read_recipe_file(sources.path, layers, faults);
  read_sets(sources.sets, layers);

  RecipeBuilder builder;
  const bool readable = faults.empty();
  builder.add_faults(std::move(faults));
  builder.apply(layers);
  if (readable)
    builder.resolve(
        sources);  // without the file, what it would have given would all be reported as missing
  return builder.finish();
}

std::vector<std::string> recipe_preset_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_recipes()) names.emplace_back(file.name);
  return names;
}

std::string ResolvedRecipe::source(const std::string& key) const {
  const auto found = sources_.find(key);
  return found == sources_.end() ? "default" : found->second;
}

std::string ResolvedRecipe::expand_run(std::string text, const std::string& run_folder) {
  const std::string word = "${run}";
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;
       at += run_folder.size()) {
    text.replace(at, word.size(), run_folder);
  }
  return text;
}

std::string ResolvedRecipe::to_toml() const {
  std::string text;
  for (const std::string& group : key_groups()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", group);
    for (const KeySpec& key : key_table()) {
      if (key.group() != group) continue;
      const std::string name = key.name.substr(group.size() + 1);
      const std::string line = unset_.contains(key.name)
                                   ? fmt::format("# {} is not set", name)
                                   : fmt::format("{} = {}", name, toml_text(key.read(recipe_)));
      text += unset_.contains(key.name) ? line + "\n"
                                        : fmt::format("{:<40}  # {}\n", line, source(key.name));
    }
  }
  return text;
}

nlohmann::ordered_json ResolvedRecipe::to_json() const {
  Json tree = Json::object();
  for (const KeySpec& key : key_table()) {
    if (unset_.contains(key.name)) continue;
    Json* node = &tree;
    std::size_t from = 0;
    for (std::size_t dot; (dot = key.name.find('.', from)) != std::string::npos; from = dot + 1) {
      node = &(*node)[key.name.substr(from, dot - from)];
    }
    (*node)[key.name.substr(from)] = key.read(recipe_);
  }
  return tree;
}

std::string ResolvedRecipe::fingerprint() const {
  std::string canonical;
  for (const KeySpec& key : key_table()) {
    if (key.cosmetic || unset_.contains(key.name)) continue;
    canonical += fmt::format("{}={}\n", key.name, key.read(recipe_).dump());
  }
  return xxh3_128(canonical).hex();
}

std::vector<RecipeDifference> diff(const ResolvedRecipe& left, const ResolvedRecipe& right) {
  std::vector<RecipeDifference> differences;
  for (const KeySpec& key : key_table()) {
    if (key.cosmetic) continue;
    const Json a = key.read(left.get());
    const Json b = key.read(right.get());
    if (a != b) differences.push_back({key.name, a.dump(), b.dump(), key.resumable});
  }
  return differences;
}

}  // namespace sx
