#include "sextant/trace/json_text.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace sx {
namespace {

using nlohmann::ordered_json;

std::string quoted(const std::string& text) {
  return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// indent < 0: everything on one line.
void print(const ordered_json& value, int indent, int depth, std::string& out) {
  const auto line_break = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  };
  if (value.is_object() || value.is_array()) {
    const bool object = value.is_object();
    out += object ? '{' : '[';
    bool first = true;
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (!first) out += ',';
      first = false;
      line_break(depth + 1);
      if (object) out += quoted(it.key()) + (indent < 0 ? ":" : ": ");
      print(*it, indent, depth + 1, out);
    }
    if (!value.empty()) line_break(depth);
    out += object ? '}' : ']';
  } else if (value.is_number_float()) {
    out += json_number(value.get<double>());
  } else if (value.is_string()) {
    out += quoted(value.get_ref<const std::string&>());
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string json_number(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

std::string json_line(const ordered_json& value) {
  std::string out;
  print(value, -1, 0, out);
  return out;
}

std::string json_pretty(const ordered_json& value) {
  std::string out;
  print(value, 2, 0, out);
  out += '\n';
  return out;
}

namespace {
template <class Json>
Result<double> number_from(const Json& value) {
  if (value.is_number()) return value.template get<double>();
  if (value.is_string()) {
    const auto& text = value.template get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return Error{ErrorKind::kCorrupt, std::string("not a number but ") + value.type_name(), ""};
}
}  // namespace

Result<double> number_of(const ordered_json& value) { return number_from(value); }
Result<double> number_of(const nlohmann::json& value) { return number_from(value); }

}  // namespace sx
