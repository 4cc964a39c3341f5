#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"

namespace sx {

/// A JSON file that a run has written, keys in the file's order. `next`: what the fault tells to
/// try. Throws IoError when it cannot be read or is not JSON.
nlohmann::ordered_json read_json(const fs::path& path, const std::string& next);

}  // namespace sx
