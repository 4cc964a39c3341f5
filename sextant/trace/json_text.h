#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"

namespace sx {

/// Shortest decimal text that reads back as the same double ("0.1", "3", "1e-07"); "\"nan\"",
/// "\"inf\"", "\"-inf\"" with quotes where JSON has no number.
std::string json_number(double value);

/// One line of JSON: keys in the order given, numbers by `json_number`, invalid UTF-8 replaced by
/// U+FFFD.
std::string json_line(const nlohmann::ordered_json& value);
/// The same over several lines, two spaces of indent, for files that people open.
std::string json_pretty(const nlohmann::ordered_json& value);

/// A number as the files write it: a JSON number, or the strings "nan", "inf", "-inf". Errors:
/// kCorrupt.
Result<double> number_of(const nlohmann::ordered_json& value);
Result<double> number_of(const nlohmann::json& value);

}  // namespace sx
