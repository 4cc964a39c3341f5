#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sextant/recipe/command_line.h"

namespace sx {
namespace {

std::string flag_usage(const FlagSpec& flag) {
  if (flag.value == FlagSpec::Value::kNone) return "--" + flag.name;
  return fmt::format("--{} {}", flag.name, flag.value_name);
}

std::string flag_lines(const std::vector<FlagSpec>& flags) {
  std::string text;
  for (const FlagSpec& flag : flags) {
    std::string line = flag.text;
    if (!flag.choices.empty()) line += fmt::format(": {}", fmt::join(flag.choices, "|"));
    if (!flag.key.empty()) line += fmt::format(" (key {})", flag.key);
    text += fmt::format("  {:<24}  {}\n", flag_usage(flag), line);
  }
  return text;
}

/// "Recipe groups it reads: ..." in lines that fit the screen.
std::string group_lines(const std::vector<std::string>& groups) {
  constexpr std::size_t kColumns = 120;
  if (groups.empty()) return "";
  std::string text = "\nRecipe groups it reads:";
  std::size_t column = text.size();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string word = groups[i] + (i + 1 < groups.size() ? "," : "");
    if (column + 1 + word.size() > kColumns) {
      text += "\n ";
      column = 1;
    }
    text += " " + word;
    column += 1 + word.size();
  }
  return text + "\n";
}

std::string usage_line(const Verb& verb, const SubVerb& sub) {
  std::string line = "sextant " + verb.name;
  if (!sub.name.empty())
    line += sub.name == verb.default_sub ? " [" + sub.name + "]" : " " + sub.name;
  if (sub.recipe == SubVerb::RecipeUse::kOptional) line += " [RECIPE.toml]";
  if (!sub.inputs.empty()) line += " " + sub.inputs;
  return line + " [flags]";
}

std::string sub_help(const Verb& verb, const SubVerb& sub) {
  std::string text = sub.summary + "\n\nUsage: " + usage_line(verb, sub) + "\n";
  if (!verb.aliases.empty())
    text += fmt::format("Also:  sextant {} ...\n", fmt::join(verb.aliases, ", "));
  if (!sub.flags.empty()) text += "\nFlags:\n" + flag_lines(sub.flags);
  text += "\nFlags of every verb:\n" + flag_lines(global_flags());
  text += group_lines(sub.groups);
  if (!sub.example.empty()) text += "\nExample:\n  " + sub.example + "\n";
  return text;
}

std::string verb_help(const Verb& verb) {
  std::string text = fmt::format("{}: {}\n\nUsage:\n", verb.name, verb.summary);
  for (const SubVerb& sub : verb.subs)
    text += fmt::format("  {}\n      {}\n", usage_line(verb, sub), sub.summary);
  if (!verb.aliases.empty())
    text += fmt::format("\nAlso known as: {}\n", fmt::join(verb.aliases, ", "));
  for (const SubVerb& sub : verb.subs) {
    if (!sub.flags.empty())
      text += fmt::format("\nFlags of {}:\n{}", sub.name, flag_lines(sub.flags));
  }
  return text + fmt::format("\nFlags of every verb:\n{}", flag_lines(global_flags()));
}

}  // namespace

std::string help_text(Program program, const Verb* verb, const SubVerb* sub) {
  if (verb != nullptr && sub != nullptr) return sub_help(*verb, *sub);
  if (verb != nullptr)
    return verb->subs.size() == 1 ? sub_help(*verb, verb->subs[0]) : verb_help(*verb);
  std::string text =
      "Sextant: from a Common Crawl archive to a trained language model.\n\n"
      "Usage: sextant <verb> [sub-verb] [RECIPE.toml] [INPUT...] [flags]\n\nVerbs:\n";
  for (const Verb& one : verb_table()) {
    if (program == Program::kSextantTrain && one.program != program) continue;
    text += fmt::format("  {:<12}{}\n", one.name, one.summary);
  }
  text += "\nFlags of every verb:\n" + flag_lines(global_flags());
  return text +
         "\nFirst steps:\n  sextant doctor\n  sextant train --preset tiny --set data.paths=demo\n  "
         "sextant <verb> --help\n";
}

}  // namespace sx
