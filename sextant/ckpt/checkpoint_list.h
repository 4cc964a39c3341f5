#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sextant/base/fs.h"

namespace sx {

/// "step-0000120".
std::string checkpoint_name(std::int64_t step);

/// The step of a folder name of that form (7 digits at least), else empty.
std::optional<std::int64_t> step_of(const std::string& name);

}  // namespace sx
