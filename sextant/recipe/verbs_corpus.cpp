// The verbs from archives to token files.
#include "sextant/recipe/verb_builders.h"

namespace sx {
namespace {

using Value = FlagSpec::Value;

FlagSpec tokenizer_flag() {
  return {.name = "tokenizer",
          .value = Value::kText,
          .value_name = "PATH",
          .text = "tokenizer folder or file",
          .key = "tokenizer.path"};
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

}  // namespace

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

}  // namespace sx
