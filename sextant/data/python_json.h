#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sx {

/// Python's `repr` of a float: the shortest digits that give the number back, an exponent below
/// 1e-4 and from 1e16 on ("1e-05", "1e+16"), ".0" behind whole numbers.
std::string python_float(double value);

/// The text of Python's `json.dumps(value, indent=4)`: what caches of Megatron-LM are named after.
/// Bytes that are no UTF-8 become lone surrogates, as Python reads such file names.
std::string python_json(const nlohmann::ordered_json& value);

}  // namespace sx
