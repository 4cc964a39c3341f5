#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

/// "fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint8", "bool"; contract error for others.
std::string dtype_name(c10::ScalarType dtype);
/// The inverse. Errors: kInvalid, lists the names.
Result<c10::ScalarType> parse_dtype(std::string_view name);

}  // namespace sx
