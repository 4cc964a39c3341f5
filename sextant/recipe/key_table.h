#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/recipe/key_value.h"
#include "sextant/recipe/recipe.h"

namespace sx {

/// One key of the recipe. The table of them feeds reader, checks, --help-recipe, docs/keys.md and
/// the golden list; a key is in it only when code reads it.
struct KeySpec {
  enum class Write { kOk, kWrongType, kOutOfRange };

  std::string name;  ///< "training.seq_len"
  std::string type;  ///< "int", "bytes", "one of cosine linear": as the documentation prints it
  std::string default_value;  ///< as documentation prints it
  std::string range;          ///< "1 .. 1024"; empty = any
  std::string text;           ///< one line
  std::string expects;        ///< what a wrong value should have been
  std::vector<std::string> aliases;
  bool cosmetic = false;     ///< not part of the fingerprint
  bool resumable = false;    ///< may differ when a run goes on
  bool may_be_auto = false;  ///< "auto" is accepted; `resolve` or the owner finds the value
  bool required = false;     ///< has no default; unset until given or derived
  bool path = false;         ///< ~ and ${recipe} are expanded
  bool raw_text = false;     ///< --set takes the value as it is typed, quotes not needed

  std::function<Write(Recipe&, const Json&)> write;
  std::function<Json(const Recipe&)> read;

  std::string group() const { return name.substr(0, name.find('.')); }
};

/// All keys, by group, in the order of the documentation.
const std::vector<KeySpec>& key_table();
/// By name or alias; nullptr if there is none.
const KeySpec* find_key(std::string_view name);
/// The groups in order.
std::vector<std::string> key_groups();
/// The nearest key of an unknown one: by distance, else one with the same last part; empty when
/// there is none.
std::string nearest_key(std::string_view name);

/// What `--help-recipe` prints for some groups (empty = all).
std::string recipe_help(std::span<const std::string> groups);
/// docs/keys.md.
std::string keys_markdown();
/// The pinned list: one line per key with type, default, flags and aliases.
std::string golden_key_list();

}  // namespace sx
