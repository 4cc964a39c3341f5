#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/key_value.h"

namespace sx {

/// One key as a source gives it, before it is looked up in the table.
struct Setting {
  std::string key;  ///< dotted
  Json value;
  std::string where;     ///< "8b.toml:14", "--set"
  std::string folder;    ///< of the file, for ${recipe}; empty for --set
  std::string raw = {};  ///< --set: the value as it was typed
};

/// Settings of one file, preset or command line: later layers win over earlier ones, and inside a
/// layer two names of one key must agree.
using Layer = std::vector<Setting>;

/// Appends the layers of a file: its includes first, then its own. TOML by `.toml`, JSON by
/// `.json`. Faults: SX2-007 not found, SX2-026 syntax, format, include cycle or depth > 8.
void read_recipe_file(const std::string& path, std::vector<Layer>& layers,
                      std::vector<Diagnostic>& faults);

/// Appends one layer from TOML text; `label` stands in place of the file's name.
void read_recipe_text(std::string_view toml, const std::string& label, std::vector<Layer>& layers,
                      std::vector<Diagnostic>& faults);

/// Appends one layer from key and value pairs: a value is TOML if it parses as that, else a bare
/// string.
void read_sets(const std::vector<std::pair<std::string, std::string>>& sets,
               std::vector<Layer>& layers);

}  // namespace sx
