// The table of verbs of both programs: parser, --help, completion and the golden help texts are
// made from it.
#include "sextant/recipe/command_line.h"

namespace sx {
namespace {

using Value = FlagSpec::Value;
constexpr auto kOptionalRecipe = SubVerb::RecipeUse::kOptional;

FlagSpec tokenizer_flag() {
  return {.name = "tokenizer",
          .value = Value::kText,
          .value_name = "PATH",
          .text = "tokenizer folder or file",
          .key = "tokenizer.path"};
}

Verb crawl_verb() {
  SubVerb run{.name = "run",
              .summary = "Turn WARC archives into filtered documents, with a report of every drop.",
              .inputs = "[INPUT...]",
              .max_inputs = SubVerb::kMany,
              .recipe = kOptionalRecipe,
              .input_key = "crawl.inputs",
              .groups = {"run", "log", "crawl"},
              .flags = {{.name = "trace-doc",
                         .value = Value::kText,
                         .value_name = "ID",
                         .text = "only show what each step does to the record with this id"}},
              .example = "sextant crawl pages/*.warc.gz --out runs/crawl"};
  SubVerb inspect{.name = "inspect",
                  .summary = "Show the records of an archive, or one of them at a chosen stage.",
                  .inputs = "FILE",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .recipe = kOptionalRecipe,
                  .groups = {"log", "crawl"},
                  .flags = {{.name = "record",
                             .value = Value::kInt,
                             .value_name = "N",
                             .text = "only record number N, counted from 0"},
                            {.name = "stage",
                             .value = Value::kText,
                             .value_name = "STAGE",
                             .text = "what to show of it (default header)",
                             .choices = {"header", "raw", "dom", "text"}}},
                  .example = "sextant crawl inspect pages.warc.gz --record 3 --stage text"};
  SubVerb report{.name = "report",
                 .summary = "Write report.html and the table again from a run's counters.",
                 .inputs = "RUN",
                 .min_inputs = 1,
                 .max_inputs = 1,
                 .example = "sextant crawl report runs/crawl"};
  SubVerb verify{
      .name = "verify",
      .summary = "Check conservation and checksums of a run; exit 5 when they do not hold.",
      .inputs = "RUN",
      .min_inputs = 1,
      .max_inputs = 1,
      .example = "sextant crawl verify runs/crawl"};
  SubVerb explain{
      .name = "explain-policy",
      .summary = "Show the rules of a policy in order, with thresholds and sources; runs nothing.",
      .inputs = "POLICY...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .example = "sextant crawl explain-policy fineweb"};
  const FlagSpec trees{.name = "trees",
                       .value = Value::kInt,
                       .value_name = "N",
                       .text = "trees of each model (default 120)"};
  const FlagSpec leaves{.name = "leaves",
                        .value = Value::kInt,
                        .value_name = "N",
                        .text = "leaves of a tree (default 31)"};
  SubVerb train{.name = "train",
                .summary = "Train a model of the crawl from labelled data: extract.",
                .inputs = "TASK DATA",
                .min_inputs = 2,
                .max_inputs = 2,
                .flags = {{.name = "to",
                           .value = Value::kText,
                           .value_name = "FILE",
                           .text = "where the model goes (default model.txt)"},
                          trees,
                          leaves},
                .example = "sextant crawl train extract pages --to main.txt"};
  SubVerb score{.name = "score",
                .summary = "Score a part of the crawl on labelled data: extraction.",
                .inputs = "TASK DATA",
                .min_inputs = 2,
                .max_inputs = 2,
                .flags = {{.name = "folds",
                           .value = Value::kInt,
                           .value_name = "K",
                           .text = "train K models, each for the sites it has not seen; 0 = the "
                                   "built-in model (default)"},
                          {.name = "layout", .text = "score the layout text instead"},
                          trees,
                          leaves},
                .example = "sextant crawl score extraction pages --folds 5"};
  SubVerb dedup{
      .name = "dedup",
      .summary = "Drop copies from plain text files: line, paragraph, document or minhash.",
      .inputs = "KIND FILE...",
      .min_inputs = 2,
      .max_inputs = SubVerb::kMany,
      .flags = {{.name = "to",
                 .value = Value::kText,
                 .value_name = "DIR",
                 .text = "folder of the files that stay, under their names (default deduped)"},
                {.name = "num-hashes",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "minhash: length of a signature (default 112)"},
                {.name = "num-bands",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "minhash: bands it is cut into (default 14)"},
                {.name = "ngrams",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "minhash: words of a shingle (default 5)"},
                {.name = "jaccard",
                 .value = Value::kFloat,
                 .value_name = "X",
                 .text = "minhash: similarity from which two files are one (default 0.8)"}},
      .example = "sextant crawl dedup line a.txt b.txt --to deduped"};
  SubVerb replay{
      .name = "replay",
      .summary = "Run policy, personal data and deduplication again over a run's documents.",
      .inputs = "RUN",
      .min_inputs = 1,
      .max_inputs = 1,
      .recipe = kOptionalRecipe,
      .groups = {"run", "log", "crawl"},
      .example =
          "sextant crawl replay runs/crawl --set 'crawl.policy=[\"fineweb\"]' --out runs/fineweb"};
  SubVerb apply{.name = "apply",
                .summary = "Run one function over JSON lines from standard input.",
                .inputs = "FN",
                .min_inputs = 1,
                .max_inputs = 1,
                .example = "sextant crawl apply rules < documents.jsonl"};
  return {.name = "crawl",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "WARC archives to filtered documents",
          .default_sub = "run",
          .subs = {run, apply, dedup, explain, inspect, replay, report, score, train, verify}};
}

FlagSpec json_key_flag() {
  return {.name = "json-key",
          .value = Value::kText,
          .value_name = "NAME",
          .text = "field of JSON lines that holds the text (default text)"};
}

FlagSpec special_flag() {
  return {.name = "special",
          .value = Value::kText,
          .value_name = "POLICY",
          .text = "special tokens inside the text",
          .key = "tokenizer.special",
          .choices = {"text", "allow", "error"}};
}

FlagSpec format_flag() {
  return {.name = "format",
          .value = Value::kText,
          .value_name = "FORM",
          .text = "ids as numbers in text, or raw little-endian (default text)",
          .choices = {"text", "u16", "u32"}};
}

FlagSpec interval_flag() {
  return {.name = "interval",
          .value = Value::kBytes,
          .value_name = "BYTES",
          .text = "text between two saved states (default 64MiB)"};
}

Verb tokenize_verb() {
  const std::vector<std::string> groups{"run", "log", "tokenizer"};
  SubVerb pack{
      .name = "pack",
      .summary = "Encode documents into a .bin/.idx pair for training.",
      .inputs = "INPUT...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .recipe = kOptionalRecipe,
      .groups = groups,
      .flags = {{.name = "output-prefix",
                 .value = Value::kText,
                 .value_name = "PREFIX",
                 .text = "writes PREFIX.bin and PREFIX.idx (default <out>/tokens)"},
                tokenizer_flag(),
                json_key_flag(),
                {.name = "heldout-prefix",
                 .value = Value::kText,
                 .value_name = "PREFIX",
                 .text = "writes a share of the documents to PREFIX.bin and PREFIX.idx instead"},
                {.name = "heldout-share",
                 .value = Value::kFloat,
                 .value_name = "SHARE",
                 .text = "share of the documents that is held out (default 0.05)",
                 .min = 0,
                 .max = 1},
                interval_flag(),
                {.name = "no-eod", .text = "no end-of-document token behind each document"}},
      .example =
          "sextant tokenize pack runs/crawl/docs-*.jsonl.zst --tokenizer runs/vocab "
          "--output-prefix data/pages"};
  SubVerb train{
      .name = "train",
      .summary = "Learn a byte-level BPE vocabulary from documents.",
      .inputs = "INPUT...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .recipe = kOptionalRecipe,
      .groups = groups,
      .flags = {{.name = "vocab-size",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "tokens in the vocabulary",
                 .key = "tokenizer.vocab_size"},
                {.name = "add-special",
                 .value = Value::kText,
                 .value_name = "TEXT",
                 .text = "a further special token behind <|endoftext|>",
                 .repeatable = true},
                json_key_flag(),
                interval_flag(),
                {.name = "interval-merges",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "merges between two saved states (default 2000)"}},
      .example =
          "sextant tokenize train runs/crawl/docs-*.jsonl.zst --vocab-size 8k --out runs/vocab"};
  SubVerb encode{.name = "encode",
                 .summary = "Print the token ids of a text.",
                 .inputs = "[FILE]",
                 .max_inputs = 1,
                 .recipe = kOptionalRecipe,
                 .groups = groups,
                 .flags = {tokenizer_flag(),
                           special_flag(),
                           format_flag(),
                           {.name = "pieces", .text = "show the pieces the text is split into"},
                           {.name = "template",
                            .text = "put around the text what the vocabulary's file says"}},
                 .example = "echo hello | sextant tokenize encode --tokenizer runs/vocab"};
  SubVerb decode{
      .name = "decode",
      .summary = "Print the text of token ids.",
      .inputs = "[FILE]",
      .max_inputs = 1,
      .recipe = kOptionalRecipe,
      .groups = groups,
      .flags = {tokenizer_flag(),
                format_flag(),
                {.name = "lossy", .text = "U+FFFD for an id that is not assigned, not a fault"},
                {.name = "errors",
                 .value = Value::kText,
                 .value_name = "POLICY",
                 .text = "bytes that are not UTF-8 in the result (default bytes: as they are)",
                 .choices = {"bytes", "replace", "strict"}}},
      .example = "echo 31373 995 | sextant tokenize decode --tokenizer r50k_base.tiktoken"};
  SubVerb count{
      .name = "count",
      .summary = "Count tokens and bytes per token of files.",
      .inputs = "FILE...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .recipe = kOptionalRecipe,
      .groups = groups,
      .flags = {tokenizer_flag(), special_flag(), json_key_flag()},
      .example = "sextant tokenize count runs/crawl/docs-*.jsonl.zst --tokenizer runs/vocab"};
  SubVerb check{
      .name = "check",
      .summary = "Load a vocabulary, or compare the ids of two; exit 5 when they differ.",
      .inputs = "A [B]",
      .min_inputs = 1,
      .max_inputs = 2,
      .flags = {{.name = "text",
                 .value = Value::kText,
                 .value_name = "FILE",
                 .text = "text to compare over; may be given several times",
                 .repeatable = true},
                json_key_flag()},
      .example = "sextant tokenize check tokenizer.json r50k_base.tiktoken --text pages.txt"};
  SubVerb convert{.name = "convert",
                  .summary = "Write a vocabulary in another format: .tiktoken or tokenizer.json.",
                  .inputs = "IN OUT",
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .example = "sextant tokenize convert r50k_base.tiktoken tokenizer.json"};
  SubVerb inspect{
      .name = "inspect",
      .summary = "Show a vocabulary: counts, special tokens, longest tokens, fingerprint.",
      .recipe = kOptionalRecipe,
      .groups = groups,
      .flags = {tokenizer_flag()},
      .example = "sextant tokenize inspect --tokenizer runs/vocab"};
  return {.name = "tokenize",
          .aliases = {"tokenizer"},
          .program = Program::kSextant,
          .summary = "vocabularies, encoding, and documents to tokens",
          .default_sub = "pack",
          .subs = {pack, train, encode, decode, count, check, convert, inspect}};
}

Verb data_verb() {
  const FlagSpec tokenizer{.name = "tokenizer",
                           .value = Value::kText,
                           .value_name = "PATH",
                           .text = "tokenizer folder or file, or the word bytes"};
  SubVerb inspect{
      .name = "inspect",
      .summary = "Show header, counts, lengths and end-of-document share of token files.",
      .inputs = "PREFIX...",
      .min_inputs = 1,
      .max_inputs = SubVerb::kMany,
      .flags = {tokenizer,
                {.name = "documents",
                 .value = Value::kInt,
                 .value_name = "N",
                 .text = "documents shown as text when a tokenizer is given (default 3)"},
                {.name = "full", .text = "read every token, too"}},
      .example = "sextant data inspect data/pages --tokenizer runs/vocab"};
  SubVerb lint{.name = "lint",
               .summary = "Check every entry of token files; exit 5 if one has a fault.",
               .inputs = "PREFIX...",
               .min_inputs = 1,
               .max_inputs = SubVerb::kMany,
               .flags = {tokenizer},
               .example = "sextant data lint data/*.idx"};
  const std::vector<std::string> groups{"run", "log", "training", "data", "tokenizer", "metrics"};
  SubVerb order{.name = "order",
                .summary = "List what stands at positions of a run's order.",
                .recipe = kOptionalRecipe,
                .groups = groups,
                .flags = {{.name = "from",
                           .value = Value::kInt,
                           .value_name = "N",
                           .text = "first position (default 0)",
                           .min = 0},
                          {.name = "count",
                           .value = Value::kInt,
                           .value_name = "N",
                           .text = "positions listed (default 10)",
                           .min = 1},
                          {.name = "text", .text = "also the beginning of the text"}},
                .example = "sextant data order run.toml --from 1000 --count 5 --text"};
  SubVerb where{.name = "where",
                .summary = "Find the positions and steps at which a unit of the data is used.",
                .recipe = kOptionalRecipe,
                .groups = groups,
                .flags = {{.name = "key",
                           .value = Value::kText,
                           .value_name = "MEMBER:EPOCH:UNIT",
                           .text = "which, as `sextant data order` prints it"}},
                .example = "sextant data where run.toml --key 0:0:17"};
  SubVerb build{.name = "build",
                .summary = "Make the index caches of mode megatron and show what they hold.",
                .recipe = kOptionalRecipe,
                .groups = groups,
                .example = "sextant data build run.toml --set data.mode=megatron"};
  SubVerb cat{.name = "cat",
              .summary = "Show a document of a token file.",
              .inputs = "PREFIX",
              .min_inputs = 1,
              .max_inputs = 1,
              .flags = {tokenizer,
                        {.name = "doc",
                         .value = Value::kInt,
                         .value_name = "N",
                         .text = "which, counted from 0 (default 0)",
                         .min = 0}},
              .example = "sextant data cat data/pages --doc 17 --tokenizer runs/vocab"};
  SubVerb stats{.name = "stats",
                .summary = "Read all tokens: how often each id comes, and their entropy.",
                .inputs = "PREFIX...",
                .min_inputs = 1,
                .max_inputs = SubVerb::kMany,
                .flags = {tokenizer,
                          {.name = "top",
                           .value = Value::kInt,
                           .value_name = "N",
                           .text = "most frequent ids shown (default 10)",
                           .min = 0}},
                .example = "sextant data stats data/pages --top 20"};
  SubVerb diff{.name = "diff",
               .summary = "Compare two token files; exit 5 at the first difference.",
               .inputs = "PREFIX PREFIX",
               .min_inputs = 2,
               .max_inputs = 2,
               .example = "sextant data diff data/pages copies/pages"};
  SubVerb verify{
      .name = "verify",
      .summary = "Recompute what a run's checkpoints say it consumed; compare with another run's.",
      .inputs = "RUN [RUN]",
      .min_inputs = 1,
      .max_inputs = 2,
      .example = "sextant data verify runs/first"};
  return {.name = "data",
          .aliases = {},
          .program = Program::kSextant,
          .summary = "token datasets",
          .default_sub = "",
          .subs = {inspect, lint, stats, cat, diff, build, order, where, verify}};
}

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
