#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/load.h"

namespace sx {

/// The grammar of both programs: `sextant <verb> [sub-verb] [recipe.toml] [inputs] [--flag value]
/// [--key.path=value]`. One table of verbs (verbs.cpp) feeds the parser, `--help`, and `sextant
/// completion`.

struct FlagSpec {
  enum class Value { kNone, kText, kInt, kFloat, kBytes, kDuration };
  std::string name;  ///< without dashes: "output-prefix"
  Value value = Value::kNone;
  std::string value_name;  ///< "N", "FILE"; shown in help
  std::string text;        ///< one line
  std::string key = {};    ///< not empty: the flag is short for --set key=value
  std::vector<std::string> choices = {};
  bool repeatable = false;
  double min = -std::numeric_limits<double>::infinity();  ///< kInt, kFloat: both ends included
  double max = std::numeric_limits<double>::infinity();
};

struct SubVerb {
  enum class RecipeUse { kNone, kOptional };
  std::string name;     ///< empty for the only form of a verb without sub-verbs
  std::string summary;  ///< one line
  std::string
      inputs;  ///< positional inputs behind the recipe, as shown: "INPUT...", "[FILE]", "RUN"
  std::size_t min_inputs = 0;
  std::size_t max_inputs = 0;  ///< kMany = any number
  RecipeUse recipe = RecipeUse::kNone;
  std::string input_key = {};  ///< inputs on the command line replace this key ("crawl.inputs")
  std::vector<std::string> groups = {};  ///< recipe groups the sub-verb reads
  std::vector<FlagSpec> flags = {};
  std::string example = {};
  static constexpr std::size_t kMany = static_cast<std::size_t>(-1);
};

enum class Program { kSextant, kSextantTrain };

struct Verb {
  std::string name;
  std::vector<std::string> aliases;
  Program program;
  std::string summary;
  std::string default_sub;  ///< taken when the second word is no sub-verb
  std::vector<SubVerb> subs;
};

/// All verbs of both programs, in the order of `--help`.
const std::vector<Verb>& verb_table();
/// By name or alias, verbs of our own scripts (names with an underscore) included; nullptr if there
/// is none.
const Verb* find_verb(std::string_view name);
/// The flags that every verb takes.
const std::vector<FlagSpec>& global_flags();

enum class ColorMode { kAuto, kAlways, kNever };

/// A parsed command line. Verbs get it with `recipe` resolved when their sub-verb takes one.
struct Invocation {
  const Verb* verb = nullptr;
  const SubVerb* sub = nullptr;
  bool sub_given = false;   ///< the sub-verb was typed, not the default
  std::string recipe_path;  ///< as typed; empty = none
  std::vector<std::string> inputs;
  std::vector<std::pair<std::string, std::string>> sets;   ///< --set and --a.b=value in order
  std::map<std::string, std::vector<std::string>> values;  ///< flags of the verb that were given
  std::string preset;
  std::string out;  ///< empty = the verb's default
  bool help = false, help_recipe = false, version = false, print_config = false, validate = false;
  bool dry_run = false, explain_step = false, quiet = false, json = false, yes = false,
       overwrite = false;
  ColorMode color = ColorMode::kAuto;
  std::vector<std::string> command;  ///< argv as given, for run.json and messages
  ResolvedRecipe recipe;

  bool has(std::string_view flag) const;
  /// Value of a flag of the verb; `fallback` when it was not given. The type was checked by the
  /// parser.
  std::string text(std::string_view flag, const std::string& fallback = {}) const;
  std::int64_t integer(std::string_view flag, std::int64_t fallback) const;
  double number(std::string_view flag, double fallback) const;
  std::vector<std::string> texts(std::string_view flag) const;
};

struct ParsedCommandLine {
  Invocation invocation;
  std::vector<Diagnostic>
      faults;  ///< all of them: SX2-001 unknown verb, flag; SX2-002 value; SX2-004 twice ...
};

/// Parses the words of a command line (argv[0] first). Reads no file, prints nothing.
ParsedCommandLine parse_command_line(Program program, std::span<const std::string> words);

/// `--help` of the program, of a verb, or of a sub-verb (verb and sub may be null). Ends with a
/// newline.
std::string help_text(Program program, const Verb* verb, const SubVerb* sub);
/// The script `sextant completion SHELL` prints; shell is "bash", "zsh" or "fish".
std::string completion_script(std::string_view shell);

/// The names nearest to `word` by Damerau-Levenshtein distance (optimal string alignment), at most
/// 3 and less than the word's own length; empty when none is near. Of equals the first.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace sx
