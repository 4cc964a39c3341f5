// Completion scripts for three shells, made from the table of verbs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sextant/recipe/command_line.h"

namespace sx {
namespace {

std::vector<std::string> sub_names(const Verb& verb) {
  std::vector<std::string> names;
  for (const SubVerb& sub : verb.subs) {
    if (!sub.name.empty()) names.push_back(sub.name);
  }
  return names;
}

std::vector<std::string> flag_names(const Verb& verb) {
  std::vector<std::string> names;
  for (const FlagSpec& flag : global_flags()) names.push_back("--" + flag.name);
  for (const SubVerb& sub : verb.subs) {
    for (const FlagSpec& flag : sub.flags) {
      const std::string name = "--" + flag.name;
      bool known = false;
      for (const std::string& other : names) known = known || other == name;
      if (!known) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verb_table()) names.push_back(verb.name);
  return names;
}

std::string bash_script() {
  std::string cases;
  for (const Verb& verb : verb_table()) {
    cases += fmt::format("    {}) words='{} {}' ;;\n", verb.name, fmt::join(sub_names(verb), " "),
                         fmt::join(flag_names(verb), " "));
  }
  return fmt::format(
      "_sextant() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} words\n"
      "  case ${{COMP_WORDS[1]}} in\n{}"
      "    *) words='{} --help --version' ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "}}\n"
      "complete -F _sextant sextant sextant-train\n",
      cases, fmt::join(verb_names(), " "));
}

std::string zsh_script() {
  std::string cases;
  for (const Verb& verb : verb_table()) {
    cases += fmt::format("    {}) compadd -- {} {} ;;\n", verb.name,
                         fmt::join(sub_names(verb), " "), fmt::join(flag_names(verb), " "));
  }
  return fmt::format(
      "#compdef sextant sextant-train\n"
      "_sextant() {{\n"
      "  if (( CURRENT == 2 )); then\n"
      "    compadd -- {} --help --version\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n{}"
      "  esac\n"
      "  _files\n"
      "}}\n"
      "compdef _sextant sextant sextant-train\n",
      fmt::join(verb_names(), " "), cases);
}

std::string fish_script() {
  std::string text;
  for (const Verb& verb : verb_table()) {
    text += fmt::format("complete -c sextant -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                        verb.summary);
    const std::string inside =
        fmt::format("complete -c sextant -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const SubVerb& sub : verb.subs) {
      if (!sub.name.empty())
        text += fmt::format("{} -a {} -d '{}'\n", inside, sub.name, sub.summary);
      for (const FlagSpec& flag : sub.flags)
        text += fmt::format("{} -l {} -d '{}'\n", inside, flag.name, flag.text);
    }
  }
  for (const FlagSpec& flag : global_flags()) {
    text += fmt::format("complete -c sextant -l {} -d '{}'\n", flag.name, flag.text);
  }
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return "";
}

}  // namespace sx
