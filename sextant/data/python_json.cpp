#include "sextant/data/python_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace sx {

namespace {

using PythonValue = nlohmann::ordered_json;

/// The code point at the front of `text` and its length in bytes; a byte that begins none is the
/// surrogate U+DC80 + its low seven bits.
std::pair<std::uint32_t, std::size_t> python_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (size == 1) return {first, 1};
  const std::pair<std::uint32_t, std::size_t> lone{0xdc00u + first, 1};
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return lone;
  std::uint32_t code = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return lone;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const std::uint32_t least = size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u;
  if (code < least || code > 0x10ffffu || (code >= 0xd800u && code < 0xe000u)) return lone;
  return {code, size};
}

void append_python_string(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const auto [code, size] = python_code_point(text);
    text.remove_prefix(size);
    switch (code) {
      case '"': out += "\\\""; continue;
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      case '\f': out += "\\f"; continue;
      case '\b': out += "\\b"; continue;
      default: break;
    }
    if (code >= 0x20 && code < 0x7f) {
      out += static_cast<char>(code);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800u + ((code - 0x10000u) >> 10),
                         0xdc00u + ((code - 0x10000u) & 0x3ffu));
    }
  }
  out += '"';
}

void append_python_value(const PythonValue& value, std::size_t depth, std::string& out) {
  const std::string inner = "\n" + std::string(4 * (depth + 1), ' ');
  const std::string outer = "\n" + std::string(4 * depth, ' ');
  if (value.is_object() || value.is_array()) {
    const bool object = value.is_object();
    if (value.empty()) {
      out += object ? "{}" : "[]";
      return;
    }
    out += object ? '{' : '[';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      out += first ? inner : "," + inner;
      first = false;
      if (object) {
        append_python_string(key, out);
        out += ": ";
      }
      append_python_value(item, depth + 1, out);
    }
    out += outer;
    out += object ? '}' : ']';
  } else if (value.is_string()) {
    append_python_string(value.get_ref<const std::string&>(), out);
  } else if (value.is_number_float()) {
    out += python_float(value.get<double>());
  } else {
    out += value.dump();  // null, booleans and whole numbers are written alike
  }
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = count > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], fraction, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string python_json(const PythonValue& value) {
  std::string out;
  append_python_value(value, 0, out);
  return out;
}

}  // namespace sx
