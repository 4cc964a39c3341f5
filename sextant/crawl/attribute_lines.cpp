#include "sextant/crawl/attribute_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "sextant/text/unicode.h"

namespace sx {

namespace {

/// "gopher.quality" and "gopher-paper" -> "gopher_quality_gopher_paper".
std::string group_name(const RulePreset& preset) {
  std::string out = fmt::format("{}_{}", preset.rule, preset.preset);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return out;
}

}  // namespace

std::string to_attribute_line(const Hash128& id, const PolicyTrail& trail, std::string_view text) {
  const std::size_t length = count_code_points(text);
  std::string out = fmt::format("{{\"id\":\"{}\",\"attributes\":{{", id.hex());
  bool first = true;
  for (std::size_t i = trail.current; i < trail.entries.size(); ++i) {
    const PolicyTrail::Entry& entry = trail.entries[i];
    if (entry.preset->measure == nullptr) continue;
    const std::string group = group_name(*entry.preset);
    for (const auto& [name, value] : entry.attributes.all()) {
      out += fmt::format("{}\"{}__{}\":[[0,{},{}]]", first ? "" : ",", group, name, length, value);
      first = false;
    }
  }
  return out + "}}";
}

Result<PolicyTrail> parse_attribute_line(std::string_view line, std::string_view id) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  const auto corrupt = [](const char* what) {
    return Error{ErrorKind::kCorrupt, what, "line of attributes"};
  };
  if (!json.is_object() || !json.contains("id") || !json.contains("attributes") ||
      !json["attributes"].is_object())
    return corrupt("no object with id and attributes");
  if (json["id"] != id) return corrupt("another document's id");
  PolicyTrail trail;
  for (const RulePreset& preset : rule_presets()) {
    if (preset.measure == nullptr) continue;
    const std::string start = group_name(preset) + "__";
    PolicyTrail::Entry entry{&preset, {}};
    for (const auto& [name, spans] : json["attributes"].items()) {
      if (!name.starts_with(start)) continue;
      if (!spans.is_array() || spans.size() != 1 || !spans[0].is_array() || spans[0].size() != 3 ||
          !spans[0][2].is_number())
        return corrupt("a value that is not [[begin, end, number]]");
      // Names live as long as the program: those of the preset's own comparisons.
      for (const RuleTest& test : preset.tests) {
        for (const char* known : {test.count, test.per}) {
          if (known != nullptr && name.substr(start.size()) == known)
            entry.attributes.set(known, spans[0][2].get<double>());
        }
      }
    }
    if (!entry.attributes.all().empty()) trail.entries.push_back(std::move(entry));
  }
  return trail;
}

void measure_all(const PolicyText& page, PolicyTrail& trail) {
  for (const RulePreset& preset : rule_presets()) {
    if (preset.measure == nullptr) continue;
    const bool known = std::any_of(
        trail.entries.begin() + static_cast<std::ptrdiff_t>(trail.current), trail.entries.end(),
        [&](const PolicyTrail::Entry& entry) { return entry.preset == &preset; });
    if (known) continue;
    PolicyTrail::Entry entry{&preset, {}};
    preset.measure(page, entry.attributes);
    trail.entries.push_back(std::move(entry));
  }
}

}  // namespace sx
