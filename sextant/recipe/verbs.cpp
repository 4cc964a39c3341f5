// The table of verbs of both programs: parser, --help, completion and the golden help texts are
// made from it.
#include "sextant/recipe/verb_builders.h"

namespace sx {
namespace {

using Value = FlagSpec::Value;

Verb plan_verb() {
  SubVerb mesh{.name = "mesh",
               .summary = "Show which ranks form which groups, and the links they use.",
               .inputs = "",
               .recipe = kOptionalRecipe,
               .groups = {"parallelism"},
               .flags = {{.name = "ranks",
                          .value = Value::kInt,
                          .value_name = "N",
                          .text = "ranks there are (default the product of the degrees)",
                          .min = 1,
                          .max = 1 << 20},
                         {.name = "rank",
                          .value = Value::kInt,
                          .value_name = "R",
                          .text = "only the place and the groups of this rank",
                          .min = 0}},
               .example = "sextant plan mesh --set parallelism.dp_shard=4 --set parallelism.tp=2"};
  SubVerb schedule{
      .name = "schedule",
      .summary = "Show what each rank of a pipeline does when, and how long it waits.",
      .inputs = "NAME|FILE.csv",
      .min_inputs = 1,
      .max_inputs = 1,
      .flags = {{.name = "ranks",
                 .value = Value::kInt,
                 .value_name = "P",
                 .text = "ranks of the pipeline (default 4)",
                 .min = 1,
                 .max = 1024},
                {.name = "microbatches",
                 .value = Value::kInt,
                 .value_name = "M",
                 .text = "microbatches of a step (default 8)",
                 .min = 1,
                 .max = 4096},
                {.name = "chunks",
                 .value = Value::kInt,
                 .value_name = "V",
                 .text = "stages a rank holds, for interleaved (default 1)",
                 .min = 1,
                 .max = 64},
                {.name = "group",
                 .value = Value::kInt,
                 .value_name = "G",
                 .text = "microbatches through a stage before the next one's turn, for "
                         "interleaved (default P)",
                 .min = 1,
                 .max = 4096},
                {.name = "csv", .text = "print the table of ops instead"}},
      .example = "sextant plan schedule zb_h1 --ranks 4 --microbatches 8"};
  return {.name = "plan",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "what a run would look like, without running it",
          .default_sub = "",
          .subs = {mesh, schedule}};
}

Verb doctor_verb() {
  SubVerb doctor{
      .name = "",
      .summary =
          "Show what this machine and this build can do, or what is wrong with a run folder.",
      .inputs = "[RUN]",
      .max_inputs = 1,
      .flags = {{.name = "require",
                 .value = Value::kText,
                 .value_name = "NAME",
                 .text = "exit 5 unless the named part is there; may be given several times",
                 .repeatable = true}},
      .example = "sextant doctor --require torch"};
  return {.name = "doctor",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "what is available, and what is wrong with a run",
          .default_sub = "",
          .subs = {doctor}};
}

Verb completion_verb() {
  SubVerb completion{.name = "",
                     .summary = "Print a completion script for a shell.",
                     .inputs = "bash|zsh|fish",
                     .min_inputs = 1,
                     .max_inputs = 1,
                     .example = "source <(sextant completion bash)"};
  return {.name = "completion",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "shell completion",
          .default_sub = "",
          .subs = {completion}};
}

}  // namespace

const std::vector<Verb>& verb_table() {
  static const std::vector<Verb> table{
      crawl_verb(), tokenize_verb(), data_verb(),   plan_verb(),   train_verb(),     launch_verb(),
      prof_verb(),  ckpt_verb(),     sample_verb(), doctor_verb(), completion_verb()};
  return table;
}

namespace {

// Used by our own scripts: found by name, listed nowhere.
const std::vector<Verb>& hidden_verbs() {
  static const std::vector<Verb> table{
      {.name = "_demo-report",
       .aliases = {},
       .program = Program::kSextant,
       .summary = "front page and summary of ./sx demo",
       .default_sub = "",
       .subs = {{.name = "",
                 .summary = "Write summary.json and report.html over the stages of a demo folder.",
                 .inputs = "DIR",
                 .min_inputs = 1,
                 .max_inputs = 1,
                 .example = "sextant _demo-report runs/demo"}}}};
  return table;
}

}  // namespace

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : hidden_verbs()) {
    if (verb.name == name) return &verb;
  }
  for (const Verb& verb : verb_table()) {
    if (verb.name == name) return &verb;
    for (const std::string& alias : verb.aliases) {
      if (alias == name) return &verb;
    }
  }
  return nullptr;
}

const std::vector<FlagSpec>& global_flags() {
  static const std::vector<FlagSpec> flags{
      {.name = "help", .text = "show this text (also -h)"},
      {.name = "help-recipe", .text = "show the recipe keys the verb reads"},
      {.name = "version", .text = "show version and build"},
      {.name = "set",
       .value = Value::kText,
       .value_name = "KEY=VALUE",
       .text = "set a recipe key; --KEY=VALUE with a dot in KEY is the same",
       .repeatable = true},
      {.name = "preset",
       .value = Value::kText,
       .value_name = "NAME",
       .text = "begin with a built-in recipe"},
      {.name = "out",
       .value = Value::kText,
       .value_name = "DIR",
       .text = "run folder (default runs/<verb>-<name>-<time>)"},
      {.name = "overwrite", .text = "empty an existing run folder first"},
      {.name = "print-config", .text = "print the resolved recipe and stop"},
      {.name = "validate", .text = "report all faults of command line and recipe and stop"},
      {.name = "dry-run", .text = "show what would be done and written, and stop"},
      {.name = "json", .text = "result as JSON on standard output"},
      {.name = "quiet", .text = "no progress and no log lines on the console"},
      {.name = "color",
       .value = Value::kText,
       .value_name = "WHEN",
       .text = "colour on standard error",
       .choices = {"auto", "always", "never"}},
      {.name = "yes", .text = "answer yes to every question"},
  };
  return flags;
}

}  // namespace sx
