#include "sextant/recipe/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sextant/base/check.h"
#include "sextant/base/units.h"

namespace sx {
namespace {

using Value = FlagSpec::Value;

bool looks_like_recipe(std::string_view word) {
  for (const std::string_view end : {".toml", ".json", ".yaml", ".yml"}) {
    if (word.size() > end.size() && word.ends_with(end)) return true;
  }
  return false;
}

bool is_flag(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

std::optional<double> parse_number(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;  // from_chars reads "nan" and "inf"
  return value;
}

/// What a number of this flag should be, with its limits.
std::string number_rule(const FlagSpec& flag, const char* kind) {
  const bool above = std::isfinite(flag.min);
  const bool below = std::isfinite(flag.max);
  if (above && below) return fmt::format("{}, {} to {}", kind, flag.min, flag.max);
  if (above) return fmt::format("{}, {} or more", kind, flag.min);
  return below ? fmt::format("{}, {} or less", kind, flag.max) : kind;
}

std::string number_fault(const FlagSpec& flag, std::optional<double> value, const char* kind) {
  const bool good = value && *value >= flag.min && *value <= flag.max;
  return good ? "" : number_rule(flag, kind);
}

/// What a value should have been; empty when it is good.
std::string value_fault(const FlagSpec& flag, const std::string& value) {
  if (!flag.choices.empty() &&
      std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end()) {
    return fmt::format("one of {}", fmt::join(flag.choices, ", "));
  }
  switch (flag.value) {
    case Value::kInt: {
      const auto count = parse_count(value);
      return number_fault(flag, count.ok() ? std::optional<double>(*count) : std::nullopt,
                          "a whole number");
    }
    case Value::kFloat: return number_fault(flag, parse_number(value), "a number");
    case Value::kBytes: return parse_bytes(value).ok() ? "" : "a size with its unit, such as 64MiB";
    case Value::kDuration:
      return parse_duration(value).ok() ? "" : "a duration with its unit, such as 90s";
    case Value::kNone:
    case Value::kText: return "";
  }
  return "";
}

class Parser {
 public:
  Parser(Program program, std::span<const std::string> words) : program_(program), words_(words) {
    parsed_.invocation.command.assign(words.begin(), words.end());
  }

  ParsedCommandLine parse() {
    find_verb_and_sub();
    for (at_ = 1; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (at_ == verb_at_ || at_ == sub_at_) continue;
      if (only_inputs_ || !is_flag(word)) {
        positionals_.push_back(word);
      } else if (word == "--") {
        only_inputs_ = true;
      } else if (word == "-h") {
        call().help = true;
      } else if (word[1] != '-') {
        fault(1, fmt::format("unknown flag {}", word),
              "flags are --lower-case-with-dashes; the only short one is -h");
      } else {
        take_flag(word);
      }
    }
    take_positionals();
    return std::move(parsed_);
  }

 private:
  Invocation& call() { return parsed_.invocation; }
  std::string program_name() const {
    return program_ == Program::kSextant ? "sextant" : "sextant-train";
  }
  std::string help_command() const {
    std::string command = "sextant ";
    if (parsed_.invocation.verb != nullptr) command += parsed_.invocation.verb->name + " ";
    if (parsed_.invocation.sub != nullptr && sub_at_ > 0)
      command += parsed_.invocation.sub->name + " ";
    return command + "--help";
  }

  void fault(int number, std::string what, std::string rule, std::string next = "") {
    parsed_.faults.push_back({.exit = ExitCode::kUser,
                              .number = number,
                              .what = std::move(what),
                              .where = fmt::format("command line, word {}", at_),
                              .rule = std::move(rule),
                              .next = next.empty() ? help_command() : std::move(next)});
  }

  /// The first word that is neither a flag nor a flag's value, and a sub-verb directly behind it.
  void find_verb_and_sub() {
    for (at_ = 1; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word == "--") return;
      if (!is_flag(word)) break;
      const FlagSpec* flag = find_global(word.starts_with("--") ? word.substr(2) : word);
      if (flag != nullptr && flag->value != Value::kNone) ++at_;
    }
    if (at_ >= words_.size()) return;
    verb_at_ = at_;
    call().verb = find_verb(words_[at_]);
    if (call().verb == nullptr) {
      std::vector<std::string> names;
      for (const Verb& verb : verb_table()) names.push_back(verb.name);
      const std::string nearest = nearest_name(words_[at_], names);
      fault(1,
            fmt::format("unknown verb {}{}", words_[at_],
                        nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest)),
            fmt::format("verbs are {}", fmt::join(names, ", ")),
            nearest.empty() ? "sextant --help" : fmt::format("sextant {} --help", nearest));
      return;
    }
    choose_sub();
  }

  void choose_sub() {
    const Verb& verb = *call().verb;
    const auto named = [&](const std::string& name) {
      const auto found = std::find_if(verb.subs.begin(), verb.subs.end(),
                                      [&](const SubVerb& sub) { return sub.name == name; });
      return found == verb.subs.end() ? nullptr : &*found;
    };
    if (verb.subs.size() == 1 && verb.subs[0].name.empty()) {
      call().sub = &verb.subs[0];
      return;
    }
    const bool has_word = verb_at_ + 1 < words_.size() && !is_flag(words_[verb_at_ + 1]);
    const std::string word = has_word ? words_[verb_at_ + 1] : "";
    if (has_word) call().sub = named(word);
    if (call().sub != nullptr) {
      sub_at_ = verb_at_ + 1;
      call().sub_given = true;
      return;
    }
    std::vector<std::string> names;
    for (const SubVerb& sub : verb.subs) names.push_back(sub.name);
    const bool is_name = has_word && word.find_first_of("./@*-") == std::string::npos;
    const std::string nearest = is_name ? nearest_name(word, names) : "";
    const bool slip = !nearest.empty() && word.size() >= 4;
    if (!verb.default_sub.empty() && !slip) {
      call().sub = named(verb.default_sub);
      return;
    }
    if (!has_word) {
      sub_missing_ = true;  // a fault only when this is no call for help
      return;
    }
    at_ = sub_at_ = verb_at_ + 1;
    fault(1,
          fmt::format("unknown sub-verb {}{}", word,
                      nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest)),
          fmt::format("{} has {}", verb.name, fmt::join(names, ", ")),
          nearest.empty() ? "" : fmt::format("sextant {} {} --help", verb.name, nearest));
  }

  static const FlagSpec* find_global(std::string_view name) {
    for (const FlagSpec& flag : global_flags()) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  const FlagSpec* find_flag(std::string_view name) {
    const FlagSpec* global = find_global(name);
    if (global != nullptr) return global;
    if (call().sub == nullptr) return nullptr;
    for (const FlagSpec& flag : call().sub->flags) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  void take_flag(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name =
        word.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    const bool dotted = name.find('.') != std::string::npos;
    const FlagSpec* flag = dotted ? nullptr : find_flag(name);
    if (!dotted && flag == nullptr) {
      unknown_flag(name);
      return;
    }
    const bool wants_value = dotted || flag->value != Value::kNone;
    if (!wants_value && value) {
      fault(2, fmt::format("--{} takes no value", name), "the flag is on when it stands there");
      return;
    }
    if (wants_value && !value) {
      if (at_ + 1 >= words_.size() || words_[at_ + 1].starts_with("--")) {
        fault(25, fmt::format("--{} needs a value", name),
              dotted ? fmt::format("--{0} VALUE or --{0}=VALUE", name)
                     : fmt::format("--{0} {1} or --{0}={1}", name, flag->value_name));
        return;
      }
      value = words_[++at_];
    }
    if (dotted) {
      call().sets.emplace_back(name, *value);
    } else {
      take_value(*flag, value.value_or(""));
    }
  }

  void unknown_flag(const std::string& name) {
    if (call().sub == nullptr && verb_at_ > 0)
      return;  // the verb is the fault: its flags are not known
    std::vector<std::string> names;
    for (const FlagSpec& flag : global_flags()) names.push_back(flag.name);
    if (call().sub != nullptr) {
      for (const FlagSpec& flag : call().sub->flags) names.push_back(flag.name);
    }
    const std::string nearest = nearest_name(name, names);
    fault(1,
          fmt::format("unknown flag --{}{}", name,
                      nearest.empty() ? "" : fmt::format(": did you mean --{}?", nearest)),
          "a recipe key is set by --group.key=value");
  }

  void take_value(const FlagSpec& flag, const std::string& value) {
    const std::string wanted = value_fault(flag, value);
    if (!wanted.empty()) {
      fault(2, fmt::format("--{} {} is not allowed", flag.name, value), "it is " + wanted);
      return;
    }
    if (!seen_.insert(flag.name).second && !flag.repeatable) {
      fault(4, fmt::format("--{} stands twice", flag.name),
            "a flag may stand once; --set may be repeated");
      return;
    }
    if (!flag.key.empty()) {
      call().sets.emplace_back(flag.key, value);
      call().values[flag.name].push_back(value);
    } else if (find_global(flag.name) != nullptr && !own_flag(flag)) {
      take_global(flag.name, value);
    } else {
      call().values[flag.name].push_back(value);
      if (flag.name == "explain-step") call().explain_step = true;
    }
  }

  bool own_flag(const FlagSpec& flag) const {
    const SubVerb* sub = parsed_.invocation.sub;
    return sub != nullptr && !sub->flags.empty() && &flag >= sub->flags.data() &&
           &flag < sub->flags.data() + sub->flags.size();
  }

  void take_global(const std::string& name, const std::string& value) {
    Invocation& to = call();
    if (name == "set") {
      const std::size_t equals = value.find('=');
      if (equals == std::string::npos || equals == 0) {
        fault(2, fmt::format("--set {} has no key and value", value), "--set KEY=VALUE");
        return;
      }
      to.sets.emplace_back(value.substr(0, equals), value.substr(equals + 1));
      return;
    }
    if (name == "out") to.out = value;
    if (name == "preset") to.preset = value;
    if (name == "color") {
      to.color = value == "always"  ? ColorMode::kAlways
                 : value == "never" ? ColorMode::kNever
                                    : ColorMode::kAuto;
    }
    const std::pair<const char*, bool Invocation::*> switches[] = {
        {"help", &Invocation::help},         {"help-recipe", &Invocation::help_recipe},
        {"version", &Invocation::version},   {"print-config", &Invocation::print_config},
        {"validate", &Invocation::validate}, {"dry-run", &Invocation::dry_run},
        {"quiet", &Invocation::quiet},       {"json", &Invocation::json},
        {"yes", &Invocation::yes},           {"overwrite", &Invocation::overwrite}};
    for (const auto& [flag, member] : switches) {
      if (name == flag) to.*member = true;
    }
  }

  void take_positionals() {
    const bool only_asks = call().help || call().version || call().help_recipe;
    at_ = words_.size();
    if (only_asks || call().verb == nullptr) return;
    if (sub_missing_) {
      fault(25, fmt::format("{} needs a sub-verb", call().verb->name), "see the list of sub-verbs");
      return;
    }
    const SubVerb* sub = call().sub;
    if (sub == nullptr) return;
    std::size_t first = 0;
    if (sub->recipe == SubVerb::RecipeUse::kOptional && !positionals_.empty() &&
        looks_like_recipe(positionals_[0])) {
      call().recipe_path = positionals_[0];
      first = 1;
    }
    call().inputs.assign(positionals_.begin() + static_cast<std::ptrdiff_t>(first),
                         positionals_.end());
    if (sub->recipe == SubVerb::RecipeUse::kNone &&
        (!call().sets.empty() || !call().preset.empty())) {
      fault(4, fmt::format("{} takes no recipe", full_name()),
            "recipe keys and presets belong to verbs that read a recipe");
    }
    const bool no_run = call().print_config || call().validate;
    if (call().inputs.size() < sub->min_inputs && !no_run) {
      fault(25, fmt::format("{} needs {}", full_name(), sub->inputs),
            "inputs stand behind the recipe");
    }
    const bool slip = std::any_of(parsed_.faults.begin(), parsed_.faults.end(),
                                  [](const Diagnostic& one) { return one.number == 1; });
    if (call().inputs.size() > sub->max_inputs &&
        !slip) {  // else it may be the value of an unknown flag
      fault(27, fmt::format("{} has no use for {}", full_name(), call().inputs[sub->max_inputs]),
            sub->inputs.empty() ? "it takes a recipe (.toml or .json) and no other input"
                                : "it takes " + sub->inputs);
    }
    if (!sub->input_key.empty() && !call().inputs.empty()) {
      const Json list = call().inputs;
      call().sets.emplace_back(sub->input_key,
                               list.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }

  std::string full_name() const {
    const Invocation& from = parsed_.invocation;
    return from.sub->name.empty() ? from.verb->name : from.verb->name + " " + from.sub->name;
  }

  using Json = nlohmann::json;
  Program program_;
  std::span<const std::string> words_;
  ParsedCommandLine parsed_;
  std::size_t at_ = 0;
  std::size_t verb_at_ = 0;
  std::size_t sub_at_ = 0;
  bool only_inputs_ = false;
  bool sub_missing_ = false;
  std::vector<std::string> positionals_;
  std::set<std::string> seen_;
};

}  // namespace

ParsedCommandLine parse_command_line(Program program, std::span<const std::string> words) {
  return Parser(program, words).parse();
}

bool Invocation::has(std::string_view flag) const { return values.contains(std::string(flag)); }

std::string Invocation::text(std::string_view flag, const std::string& fallback) const {
  const auto found = values.find(std::string(flag));
  return found == values.end() ? fallback : found->second.back();
}

std::int64_t Invocation::integer(std::string_view flag, std::int64_t fallback) const {
  return has(flag) ? parse_count(text(flag)).value() : fallback;
}

double Invocation::number(std::string_view flag, double fallback) const {
  return has(flag) ? parse_number(text(flag)).value() : fallback;
}

std::vector<std::string> Invocation::texts(std::string_view flag) const {
  const auto found = values.find(std::string(flag));
  return found == values.end() ? std::vector<std::string>{} : found->second;
}

}  // namespace sx
