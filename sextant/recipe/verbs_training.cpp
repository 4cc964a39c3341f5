// The verbs of training and of what it leaves.
#include "sextant/recipe/verb_builders.h"

namespace sx {
namespace {

using Value = FlagSpec::Value;

}  // namespace

Verb train_verb() {
  SubVerb train{
      .name = "",
      .summary = "Train a language model on token files; saves, and goes on from what was saved.",
      .inputs = "",
      .recipe = kOptionalRecipe,
      .groups = {"run", "log", "model", "optimizer", "lr_scheduler", "training", "parallelism",
                 "activation_checkpoint", "checkpoint", "data", "tokenizer", "metrics", "comm"},
      .flags = {{.name = "resume", .text = "go on in --out from the newest whole checkpoint"},
                {.name = "eval-only", .text = "load the checkpoint, evaluate, and stop"},
                {.name = "choices",
                 .value = Value::kText,
                 .value_name = "FILE",
                 .text = "with --eval-only: also score multiple choice, JSON lines of context, "
                         "choices, answer"},
                {.name = "explain-step", .text = "print what one step does, in order, and stop"}},
      .example = "sextant train --preset tiny --set data.paths=demo --out runs/first"};
  return {.name = "train",
          .aliases = {},
          .program = Program::kSextantTrain,
          .summary = "train a model",
          .default_sub = "",
          .subs = {train}};
}

Verb launch_verb() {
  SubVerb launch{
      .name = "",
      .summary = "Start a command as several ranks, which end together.",
      .inputs = "-- COMMAND...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .flags = {{.name = "ranks",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "ranks of the run, on all nodes together",
                 .min = 1},
                {.name = "max-restarts",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "times a failed run is started again from its checkpoint (default 0)",
                 .min = 0},
                {.name = "nodes",
                 .value = Value::kText,
                 .value_name = "FILE",
                 .text = "host names, one a line, rank 0 on the first; launch is started on each"},
                {.name = "port",
                 .value = Value::kInt,
                 .value_name = "PORT",
                 .text = "where ranks meet rank 0 (default 29500 with --nodes, else a free one)",
                 .min = 1,
                 .max = 65535}},
      .example = "sextant launch --ranks 4 -- train 8b.toml --out runs/8b"};
  return {.name = "launch",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "a command on several ranks",
          .default_sub = "",
          .subs = {launch}};
}

Verb prof_verb() {
  SubVerb flight{.name = "flight",
                 .summary =
                     "Lay the flight records of a run's ranks side by side: where they first "
                     "differ.",
                 .inputs = "DIR",
                 .min_inputs = 1,
                 .max_inputs = 1,
                 .example = "sextant prof flight runs/first/flight"};
  return {.name = "prof",
          .aliases = {},
          .program = Program::kSextantTrain,
          .summary = "where time is lost, and where ranks part",
          .default_sub = "",
          .subs = {flight}};
}

Verb ckpt_verb() {
  SubVerb inspect{.name = "inspect",
                  .summary = "List the tensors of a checkpoint: name, shape, type, bytes.",
                  .inputs = "PATH",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .flags = {{.name = "tensor",
                             .value = Value::kText,
                             .value_name = "NAME",
                             .text = "extent, mean, norm and chunks of one tensor instead"}},
                  .example = "sextant ckpt inspect runs/first/ckpt/latest"};
  SubVerb verify{
      .name = "verify",
      .summary = "Check every byte of a checkpoint, or of a run's newest; exit 5 when one differs.",
      .inputs = "PATH",
      .min_inputs = 1,
      .max_inputs = 1,
      .example = "sextant ckpt verify runs/first/ckpt/latest"};
  SubVerb diff{.name = "diff",
               .summary = "Compare two checkpoints, however they are cut; exit 5 when they differ.",
               .inputs = "A B",
               .min_inputs = 2,
               .max_inputs = 2,
               .example = "sextant ckpt diff runs/first/ckpt/latest runs/second/ckpt/latest"};
  SubVerb reshard{.name = "reshard",
                  .summary = "Write a checkpoint anew in equal files for so many ranks.",
                  .inputs = "SRC DST",
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .flags = {{.name = "ranks",
                             .value = Value::kInt,
                             .value_name = "N",
                             .text = "files of model and of optimizer (default 1)",
                             .min = 1,
                             .max = 100000},
                            {.name = "plan", .text = "print the files and write nothing"}},
                  .example = "sextant ckpt reshard runs/first moved --ranks 4"};
  SubVerb convert{.name = "convert",
                  .summary = "Change the format of a model, tensor by tensor.",
                  .inputs = "SRC DST",
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .flags = {{.name = "from",
                             .value = Value::kText,
                             .value_name = "FORMAT",
                             .text = "of SRC (default sextant); dcp: torch.distributed.checkpoint",
                             .choices = {"sextant", "hf", "dcp"}},
                            {.name = "to",
                             .value = Value::kText,
                             .value_name = "FORMAT",
                             .text = "of DST (default sextant)",
                             .choices = {"sextant", "hf"}},
                            {.name = "shard-bytes",
                             .value = Value::kBytes,
                             .value_name = "BYTES",
                             .text = "weights in one file of a Hugging Face folder (default 5GB)"},
                            {.name = "dtype",
                             .value = Value::kText,
                             .value_name = "TYPE",
                             .text = "of the weights of a Hugging Face folder (default as stored)",
                             .choices = {"auto", "fp32", "fp16", "bf16"}},
                            {.name = "prefix",
                             .value = Value::kText,
                             .value_name = "TEXT",
                             .text = "dcp: only names that begin with it, without it"}},
                  .example = "sextant ckpt convert runs/first model --to hf"};
  return {.name = "ckpt",
          .aliases = {},
          .program = Program::kSextantTrain,
          .summary = "checkpoints",
          .default_sub = "",
          .subs = {inspect, verify, diff, reshard, convert}};
}

Verb sample_verb() {
  SubVerb sample{.name = "",
                 .summary = "Continue a text with a trained model.",
                 .inputs = "RUN",
                 .min_inputs = 1,
                 .max_inputs = 1,
                 .flags = {{.name = "prompt",
                            .value = Value::kText,
                            .value_name = "TEXT",
                            .text = "text to continue (default empty)"},
                           {.name = "max-tokens",
                            .value = Value::kInt,
                            .value_name = "N",
                            .text = "tokens to make (default 64)",
                            .min = 0},
                           {.name = "temperature",
                            .value = Value::kFloat,
                            .value_name = "T",
                            .text = "0 takes the likeliest token (default 0.8)",
                            .min = 0},
                           {.name = "top-p",
                            .value = Value::kFloat,
                            .value_name = "P",
                            .text = "smallest set of tokens with this probability (default 1)",
                            .min = 1e-6,
                            .max = 1},
                           {.name = "num",
                            .value = Value::kInt,
                            .value_name = "N",
                            .text = "samples to make (default 1)",
                            .min = 0},
                           {.name = "seed",
                            .value = Value::kInt,
                            .value_name = "N",
                            .text = "seed of the choice (default 1)"}},
                 .example = "sextant sample runs/first --prompt 'The ' --max-tokens 100"};
  return {.name = "sample",
          .aliases = {},
          .program = Program::kSextantTrain,
          .summary = "text from a checkpoint",
          .default_sub = "",
          .subs = {sample}};
}

}  // namespace sx
