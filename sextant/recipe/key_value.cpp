#include "sextant/recipe/key_value.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace sx {
namespace {

constexpr double kInt64Edge = 9.2233720368547758e18;

template <class E>
bool read_word(const Json& json, std::optional<E>& out) {
  if (!json.is_string()) return false;
  const auto& words = EnumWords<E>::kWords;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (json.get_ref<const std::string&>() != words[i]) continue;
    out = static_cast<E>(i);
    return true;
  }
  return false;
}

bool read_reshard(const Json& json, std::optional<Switch>& out) {
  Switch value;
  if (!read_value(json, value)) return false;
  if (json.is_string() && value.text != "auto" && value.text != "fits") return false;
  out = value;
  return true;
}

bool read_override_field(const std::string& name, const Json& json, DpOverride& out) {
  if (name == "unit") return read_value(json, out.unit) && !out.unit.empty();
  if (name == "zero") return read_word(json, out.zero);
  if (name == "layout") return read_word(json, out.layout);
  if (name == "reshard_after_forward") return read_reshard(json, out.reshard_after_forward);
  if (name == "accumulate") return read_word(json, out.accumulate);
  if (name == "param_dtype") return read_word(json, out.param_dtype);
  if (name == "reduce_dtype") return read_word(json, out.reduce_dtype);
  if (name == "main_dtype") return read_word(json, out.main_dtype);
  if (name == "output_dtype") return read_word(json, out.output_dtype);
  if (name == "cast_inputs") return read_value(json, out.cast_inputs.emplace());
  if (name == "wire") return read_word(json, out.wire);
  return false;
}

/// Durations below a second keep their digits: "0.25s" reads back exactly.
std::string duration_text(Seconds value) {
  const double s = value.value;
  if (s != 0 && s < 1e-3) return fmt::format("{}us", s * 1e6);
  return fmt::format("{}s", s);
}

}  // namespace

bool read_value(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}

bool read_value(const Json& json, std::int64_t& out) {
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    const bool negative = !text.empty() && text[0] == '-';
    auto parsed = parse_count(negative ? std::string_view(text).substr(1) : std::string_view(text));
    if (!parsed.ok()) return false;
    out = negative ? -*parsed : *parsed;
    return true;
  }
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    out = static_cast<std::int64_t>(value);
    return true;
  }
  if (json.is_number_float()) {  // 1e6 is a count people write
    const double value = json.get<double>();
    if (std::floor(value) != value || std::abs(value) >= kInt64Edge) return false;
    out = static_cast<std::int64_t>(value);
    return true;
  }
  if (!json.is_number_integer()) return false;
  out = json.get<std::int64_t>();
  return true;
}

bool read_value(const Json& json, std::uint64_t& out) {
  if (json.is_number_unsigned()) {
    out = json.get<std::uint64_t>();
    return true;
  }
  if (json.is_string()) {  // beyond what a TOML integer holds
    const std::string& text = json.get_ref<const std::string&>();
    if (text.empty() || text.size() > 20) return false;
    std::uint64_t value = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return false;
      const auto digit = static_cast<std::uint64_t>(c - '0');
      if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return false;
      value = value * 10 + digit;
    }
    out = value;
    return true;
  }
  std::int64_t value = 0;
  if (!read_value(json, value) || value < 0) return false;
  out = static_cast<std::uint64_t>(value);
  return true;
}

bool read_value(const Json& json, double& out) {
  if (!json.is_number()) return false;
  out = json.get<double>();
  return std::isfinite(out);
}

bool read_value(const Json& json, std::string& out) {
  if (!json.is_string()) return false;
  out = json.get<std::string>();
  return out.find('\0') == std::string::npos;
}

bool read_value(const Json& json, std::vector<std::string>& out) {
  if (json.is_string()) {
    out = {json.get<std::string>()};
    return true;
  }
  if (!json.is_array()) return false;
  out.clear();
  for (const Json& item : json) {
    std::string text;
    if (!read_value(item, text)) return false;
    out.push_back(text);
  }
  return true;
}

bool read_value(const Json& json, std::vector<std::int64_t>& out) {
  out.clear();
  if (!json.is_array()) return read_value(json, out.emplace_back());
  for (const Json& item : json) {
    if (!read_value(item, out.emplace_back())) return false;
  }
  return true;
}

bool read_value(const Json& json, Bytes& out) {
  if (!json.is_string()) return read_value(json, out.value);
  auto parsed = parse_bytes(json.get_ref<const std::string&>());
  if (!parsed.ok()) return false;
  out = *parsed;
  return true;
}

bool read_value(const Json& json, Seconds& out) {
  if (!json.is_string()) return false;
  auto parsed = parse_duration(json.get_ref<const std::string&>());
  if (!parsed.ok()) return false;
  out = *parsed;
  return true;
}

bool read_value(const Json& json, SaveInterval& out) {
  out = {};
  if (!json.is_string()) return read_value(json, out.steps);
  std::string text = json.get<std::string>();
  for (const std::string_view word : {" steps", " step"}) {
    if (text.size() > word.size() && text.ends_with(word)) {
      return read_value(Json(text.substr(0, text.size() - word.size())), out.steps);
    }
  }
  return read_value(json, out.duration);
}

bool read_value(const Json& json, std::optional<std::int64_t>& out) {
  if (json.is_string() && json.get_ref<const std::string&>() == "auto") {
    out.reset();
    return true;
  }
  return read_value(json, out.emplace());
}

bool read_value(const Json& json, std::optional<Bytes>& out) {
  if (json.is_string() && json.get_ref<const std::string&>() == "auto") {
    out.reset();
    return true;
  }
  return read_value(json, out.emplace());
}

bool read_value(const Json& json, Switch& out) {
  if (json.is_boolean()) {
    out.text = json.get<bool>() ? "true" : "false";
  } else if (json.is_number_integer()) {
    out.text = fmt::format("{}", json.get<std::int64_t>());
  } else if (json.is_string()) {
    out.text = json.get<std::string>();
  } else {
    return false;
  }
  return true;
}

bool read_value(const Json& json, std::vector<DpOverride>& out) {
  out.clear();
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!item.is_object() || !item.contains("unit")) return false;
    DpOverride& one = out.emplace_back();
    for (const auto& [name, value] : item.items()) {
      if (!read_override_field(name, value, one)) return false;
    }
  }
  return true;
}

bool read_value(const Json& json, std::vector<BlendPart>& out) {
  out.clear();
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    const bool table =
        item.is_object() && item.size() == 2 && item.contains("path") && item.contains("weight");
    if (!table && !(item.is_array() && item.size() == 2)) return false;
    BlendPart& part = out.emplace_back();
    if (!read_value(table ? item["path"] : item[1], part.path)) return false;
    if (!read_value(table ? item["weight"] : item[0], part.weight)) return false;
  }
  return true;
}

Json write_value(bool value) { return value; }
Json write_value(std::int64_t value) { return value; }
Json write_value(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return fmt::format("{}", value);
  }
  return static_cast<std::int64_t>(value);
}
Json write_value(double value) { return value; }
Json write_value(const std::string& value) { return value; }
Json write_value(const std::vector<std::string>& value) { return value; }
Json write_value(const std::vector<std::int64_t>& value) { return value; }

Json write_value(Bytes value) {
  const std::int64_t bytes = value.value;
  for (const auto& [unit, shift] : {std::pair{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}) {
    const std::int64_t one = std::int64_t{1} << shift;
    if (bytes != 0 && bytes % one == 0) return fmt::format("{}{}", bytes / one, unit);
  }
  return fmt::format("{}B", bytes);
}

Json write_value(Seconds value) { return duration_text(value); }

Json write_value(SaveInterval value) {
  if (value.duration.value > 0) return duration_text(value.duration);
  return fmt::format("{} steps", value.steps);
}

Json write_value(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json("auto");
}

Json write_value(const std::optional<Bytes>& value) {
  return value ? write_value(*value) : Json("auto");
}

Json write_value(const Switch& value) {
  if (value.text == "true" || value.text == "false") return value.text == "true";
  const bool digits =
      !value.text.empty() && value.text.find_first_not_of("0123456789") == std::string::npos;
  if (digits && value.text.size() < 18) return std::int64_t{std::stoll(value.text)};
  return value.text;
}

Json write_value(const std::vector<DpOverride>& value) {
  Json list = Json::array();
  for (const DpOverride& one : value) {
    Json item{{"unit", one.unit}};
    const auto word = [&](const char* name, const auto& field) {
      if (field) item[name] = to_word(*field);
    };
    word("zero", one.zero);
    word("layout", one.layout);
    if (one.reshard_after_forward)
      item["reshard_after_forward"] = write_value(*one.reshard_after_forward);
    word("accumulate", one.accumulate);
    word("param_dtype", one.param_dtype);
    word("reduce_dtype", one.reduce_dtype);
    word("main_dtype", one.main_dtype);
    word("output_dtype", one.output_dtype);
    if (one.cast_inputs) item["cast_inputs"] = *one.cast_inputs;
    word("wire", one.wire);
    list.push_back(std::move(item));
  }
  return list;
}

Json write_value(const std::vector<BlendPart>& value) {
  Json list = Json::array();
  for (const BlendPart& part : value)
    list.push_back({{"path", part.path}, {"weight", part.weight}});
  return list;
}

const char* expected(const bool&) { return "true or false"; }
const char* expected(const std::int64_t&) { return "a whole number, or a string such as \"300B\""; }
const char* expected(const std::uint64_t&) { return "a whole number from 0"; }
const char* expected(const double&) { return "a number"; }
const char* expected(const std::string&) { return "a string"; }
const char* expected(const std::vector<std::string>&) { return "a list of strings"; }
const char* expected(const std::vector<std::int64_t>&) { return "a list of whole numbers"; }
const char* expected(const Bytes&) { return "a size with its unit, such as \"64MiB\""; }
const char* expected(const Seconds&) { return "a duration with its unit, such as \"90s\""; }
const char* expected(const SaveInterval&) {
  return "steps or a duration, such as \"1000 steps\" or \"30min\"";
}
const char* expected(const std::optional<std::int64_t>&) { return "a whole number or \"auto\""; }
const char* expected(const std::optional<Bytes>&) {
  return "a size with its unit, such as \"64MiB\", or \"auto\"";
}
const char* expected(const std::vector<BlendPart>&) {
  return "a list of tables {path, weight} or pairs [weight, path]";
}
const char* expected(const std::vector<DpOverride>&) {
  return "a list such as [{unit = \"layers.*\", zero = \"zero1\"}] with the words of the keys of "
         "those names";
}
const char* expected(const Switch&) { return "true, false, a whole number or a word"; }

std::optional<double> as_number(const Json& canonical) {
  if (canonical.is_number()) return canonical.get<double>();
  if (!canonical.is_string()) return std::nullopt;
  const std::string& text = canonical.get_ref<const std::string&>();
  if (auto bytes = parse_bytes(text); bytes.ok()) return static_cast<double>(bytes->value);
  if (auto duration = parse_duration(text); duration.ok()) return duration->value;
  return std::nullopt;
}

}  // namespace sx
