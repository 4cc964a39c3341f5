#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/recipe/key_value.h"

namespace sx {

/// A value of a JSON tree with the line its key stands in.
struct JsonLeaf {
  std::string key;  ///< dotted
  Json value;       ///< a scalar or an array
  std::size_t line = 0;
};

/// The leaves of a JSON object in file order. Errors: kCorrupt; `where` is "LINE".
Result<std::vector<JsonLeaf>> read_json_leaves(const std::string& text);

}  // namespace sx
