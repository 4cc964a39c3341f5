#pragma once

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// model.json of a checkpoint: the fields of ModelShape under their names.
nlohmann::ordered_json to_json(const ModelShape& shape);
/// Errors: kCorrupt for a missing field, a wrong type or an unknown word.
Result<ModelShape> model_shape_from_json(const nlohmann::ordered_json& json);

}  // namespace sx
