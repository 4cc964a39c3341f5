// What people read about the keys: --help-recipe, docs/keys.md, the pinned list.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sextant/recipe/command_line.h"
#include "sextant/recipe/key_table.h"

namespace sx {
namespace {

std::string flags_text(const KeySpec& key) {
  std::vector<std::string> flags;
  if (key.cosmetic) flags.push_back("cosmetic");
  if (key.resumable) flags.push_back("resumable");
  return fmt::format("{}", fmt::join(flags, ", "));
}

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

}  // namespace

std::string nearest_key(std::string_view name) {
  std::vector<std::string> names;
  for (const KeySpec& key : key_table()) names.push_back(key.name);
  std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return nearest;
  const auto last = [](std::string_view text) {
    const std::size_t dot = text.rfind('.');
    return text.substr(dot == std::string_view::npos ? 0 : dot + 1);
  };
  for (const std::string& candidate : names) {
    if (last(candidate) == last(name)) return candidate;
  }
  return "";
}

std::string recipe_help(std::span<const std::string> groups) {
  std::string text;
  for (const std::string& group : key_groups()) {
    if (!groups.empty() && std::find(groups.begin(), groups.end(), group) == groups.end()) continue;
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", group);
    for (const KeySpec& key : key_table()) {
      if (key.group() != group) continue;
      text += fmt::format("{} = {}\n    {}\n    {}{}\n", key.name.substr(group.size() + 1),
                          key.default_value, key.text, key.type,
                          key.range.empty() ? "" : ", " + key.range);
    }
  }
  return text;
}

std::string keys_markdown() {
  std::string text =
      "# Recipe keys\n\n"
      "Made from the key table by the build target `update_golden`; a test compares. A recipe is a "
      "TOML file (or JSON\n"
      "with the same tree); `sextant <verb> --help-recipe` prints the part a verb reads. Each key "
      "can be set on the\n"
      "command line too: `--set training.steps=10`, or shorter `--training.steps=10`.\n\n"
      "Flags: *cosmetic* keys are not part of the fingerprint; *resumable* keys may differ when a "
      "run goes on.\n";
  for (const std::string& group : key_groups()) {
    text += fmt::format(
        "\n## {}\n\n| key | type | default | range | meaning | flags | also "
        "|\n|---|---|---|---|---|---|---|\n",
        group);
    for (const KeySpec& key : key_table()) {
      if (key.group() != group) continue;
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", key.name, in_cell(key.type),
                          in_cell(key.default_value), key.range, in_cell(key.text), flags_text(key),
                          fmt::join(key.aliases, ", "));
    }
  }
  return text;
}

std::string golden_key_list() {
  std::string text;
  for (const KeySpec& key : key_table()) {
    text += fmt::format("{} | {} | {} | {} | {} | {}\n", key.name, key.type, key.default_value,
                        key.range, flags_text(key), fmt::join(key.aliases, " "));
  }
  return text;
}

}  // namespace sx
